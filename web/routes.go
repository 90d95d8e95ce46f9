package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"weir/web/static"
	"weir/web/ui"
)

// maxForm is the limit of what a form of the panel may carry.
const maxForm = "256K"

// route is one address of the panel. least is the least role that may use it: it is checked here, for every route alike, so a handler can
// only be reached by who may. A page asks m.Frame.Can(…) for the same role before it offers the button.
type route struct {
	method, path string
	least        ui.Role
	handler      echo.HandlerFunc
}

// panelRoutes are all addresses that need somebody who is signed in: looking is a viewer's, doing an operator's, configuring an
// administrator's.
func (s *Server) panelRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	const viewer, operator, administrator = ui.Viewer, ui.Operator, ui.Administrator
	return []route{
		{get, "/", viewer, s.overviewPage},
		{get, livePath, viewer, s.liveStream},
		{get, findPath, viewer, s.findPage},

		{get, "/destinations", viewer, s.destinationListPage},
		{post, "/destinations", administrator, s.destinationCreate},
		{get, "/destinations/new", administrator, s.destinationNewPage},
		{get, "/destinations/:id", viewer, s.destinationPage},
		{post, "/destinations/:id", administrator, s.destinationUpdate},
		{get, "/destinations/:id/edit", administrator, s.destinationEditPage},
		{post, "/destinations/:id/forecast", administrator, s.destinationForecast},
		{post, "/destinations/:id/pause", operator, s.destinationPause},
		{post, "/destinations/:id/resume", operator, s.destinationResume},
		{post, "/destinations/:id/disable", operator, s.destinationDisable},
		{post, "/destinations/:id/drain", operator, s.destinationDrain},
		{post, "/destinations/:id/undrain", operator, s.destinationUndrain},
		{get, "/destinations/:id/history", viewer, s.destinationHistoryPage},
		{post, "/destinations/:id/notes", operator, s.noteAdd},
		{post, "/destinations/:id/notes/:note/delete", operator, s.noteDelete},
		{get, "/destinations/:id/tests/:delivery", viewer, s.testSendPage},
		{post, "/destinations/:id/adopt", administrator, s.destinationAdopt},
		{post, "/destinations/:id/delete", administrator, s.destinationDelete},
		{post, "/destinations/:id/rotate", administrator, s.destinationRotate},
		{post, "/destinations/:id/test", operator, s.destinationTest},

		{get, "/lanes", viewer, s.laneListPage},
		{get, "/lanes/:id", viewer, s.lanePage},
		{post, "/lanes/:id", administrator, s.laneUpdate},
		{get, "/lanes/:id/edit", administrator, s.laneEditPage},
		{post, "/lanes/:id/forecast", administrator, s.laneForecast},

		{get, "/events", viewer, s.eventListPage},
		{get, "/events/:id", viewer, s.eventPage},
		{get, "/events/:id/payload", operator, s.payloadDownload},
		{post, "/events/:id/reveal", operator, s.payloadReveal},

		{get, "/subjects/:id", viewer, s.subjectPage},

		{get, "/search-keys", viewer, s.searchKeyPage},
		{post, "/search-keys", administrator, s.searchKeyCreate},
		{post, "/search-keys/:id/delete", administrator, s.searchKeyDelete},

		{get, "/deliveries", viewer, s.deliveryListPage},
		{get, "/deliveries/export", viewer, s.deliveryExport},
		{get, "/deliveries/:id", viewer, s.deliveryPage},
		{post, "/deliveries/:id/replay", operator, s.deliveryReplay},

		{post, "/views", viewer, s.viewSave},
		{post, "/views/:id/delete", viewer, s.viewDelete},

		{get, "/dead-letters", viewer, s.letterListPage},
		{get, "/dead-letters/:id", viewer, s.letterGroupPage},
		{post, "/dead-letters/:id/assign", operator, s.letterAssign},
		{post, "/dead-letters/:id/note", operator, s.letterNote},
		{post, "/dead-letters/:id/snooze", operator, s.letterSnooze},
		{post, "/dead-letters/:id/wake", operator, s.letterWake},
		{post, "/dead-letters/:id/resolve", operator, s.letterResolve},
		{post, "/dead-letters/:id/take-back", operator, s.letterTakeBack},

		{get, "/replays", viewer, s.replayListPage},
		{post, "/replays", operator, s.replayCreate},
		{get, "/replays/new", operator, s.replayNewPage},
		{get, "/replays/preview", operator, s.replayPreviewPage},
		{get, "/replays/:id", viewer, s.replayPage},
		{get, "/replays/:id/items", viewer, s.replayItemsPage},
		{post, "/replays/:id/pause", operator, s.replayPause},
		{post, "/replays/:id/resume", operator, s.replayResume},
		{post, "/replays/:id/stop", operator, s.replayStop},

		{get, "/discovery", viewer, s.discoveryPage},
		{get, "/mends", viewer, s.mendListPage},

		{get, riverPath, administrator, s.riverPage},
		{get, riverPath + "/*", administrator, s.riverPage},
		{post, riverPath + "/*", administrator, s.riverPage},
		{http.MethodPut, riverPath + "/*", administrator, s.riverPage},
		{http.MethodPatch, riverPath + "/*", administrator, s.riverPage},

		{get, "/account", viewer, s.accountPage},
		{post, "/account/password", viewer, s.accountPassword},
		{post, "/account/sessions/:id/revoke", viewer, s.accountSessionRevoke},
		{post, "/account/sessions/revoke-others", viewer, s.accountSessionRevokeOthers},

		{get, "/people", administrator, s.peoplePage},
		{post, "/people", administrator, s.peopleInvite},
		{post, "/people/:id/role", administrator, s.personRole},
		{post, "/people/:id/deactivate", administrator, s.personDeactivate},
		{post, "/people/:id/reactivate", administrator, s.personReactivate},
		{post, "/people/:id/password", administrator, s.personPasswordLink},
		{post, "/invitations/:id/revoke", administrator, s.invitationRevoke},
		{get, "/sessions", administrator, s.sessionsPage},
		{post, "/sessions/:id/revoke", administrator, s.sessionRevoke},

		{get, "/settings", administrator, s.settingsPage},
		{get, "/audit", administrator, s.auditListPage},
		{get, "/audit/export.csv", administrator, s.auditExportCSV},
		{get, "/audit/export.ndjson", administrator, s.auditExportNDJSON},

		{get, "/tokens", administrator, s.tokenPage},
		{post, "/tokens", administrator, s.tokenCreate},
		{post, "/tokens/:id/revoke", administrator, s.tokenRevoke},
	}
}

// compress makes pages small on the way. Not what is no page: the stream of changes, which must not wait in a buffer, and downloads. Nor
// answers to a POST: they can show a secret, and what is sent with it would be compressed together with it.
func compress() echo.MiddlewareFunc {
	return middleware.GzipWithConfig(middleware.GzipConfig{Level: 5, MinLength: 1024, Skipper: func(c echo.Context) bool {
		return c.Request().Method != http.MethodGet || c.Path() == livePath || strings.HasPrefix(c.Path(), riverPath) ||
			strings.Contains(c.Path(), "/export") || strings.HasSuffix(c.Path(), "/payload")
	}})
}

// mountPanel adds the admin panel. What changes something is a POST, and each POST answers with a redirect to a page.
func (s *Server) mountPanel(e *echo.Echo) {
	open := []echo.MiddlewareFunc{sameOrigin(), middleware.BodyLimit(maxForm), s.withSession, s.identify}
	signedIn := append(slices.Clip(open), s.requireOperator, compress())

	e.GET("/static/*", echo.WrapHandler(static.Handler()))
	e.GET("/favicon.ico", func(c echo.Context) error { return c.Redirect(http.StatusMovedPermanently, static.URL("icon.svg")) })

	// Without being signed in.
	e.GET("/login", s.loginPage, open...)
	e.POST("/login", s.login, append(slices.Clip(open), s.limitSignIn)...)
	e.GET("/welcome", s.welcomePage, open...)
	e.POST("/welcome", s.welcome, append(slices.Clip(open), s.limitSignIn)...)
	e.POST("/logout", s.logout, open...)

	for _, r := range s.panelRoutes() {
		e.Add(r.method, r.path, r.handler, append(slices.Clip(signedIn), requireRole(r.least))...)
	}
}
