package web

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"weir/web/static"
)

// maxForm is the limit of what a form of the panel may carry.
const maxForm = "256K"

// mountPanel adds the admin panel. What changes something is a POST, and each POST answers with a redirect to a page.
func (s *Server) mountPanel(e *echo.Echo) {
	const get, post = http.MethodGet, http.MethodPost
	type route struct {
		method, path string
		handler      echo.HandlerFunc
	}
	open := []echo.MiddlewareFunc{sameOrigin(), middleware.BodyLimit(maxForm), s.withSession, s.identify}
	signedIn := append(slices.Clip(open), s.requireOperator)
	limit := limitSignIn()

	e.GET("/static/*", echo.WrapHandler(static.Handler()))
	e.GET("/favicon.ico", func(c echo.Context) error { return c.Redirect(http.StatusMovedPermanently, static.URL("icon.svg")) })

	// Without being signed in.
	e.GET("/login", s.loginPage, open...)
	e.POST("/login", s.login, append(slices.Clip(open), limit)...)
	e.GET("/welcome", s.welcomePage, open...)
	e.POST("/welcome", s.welcome, append(slices.Clip(open), limit)...)
	e.POST("/logout", s.logout, open...)

	for _, r := range []route{
		{get, "/", s.overviewPage},

		{get, "/destinations", s.destinationListPage},
		{post, "/destinations", s.destinationCreate},
		{get, "/destinations/new", s.destinationNewPage},
		{get, "/destinations/:id", s.destinationPage},
		{post, "/destinations/:id", s.destinationUpdate},
		{get, "/destinations/:id/edit", s.destinationEditPage},
		{post, "/destinations/:id/pause", s.destinationPause},
		{post, "/destinations/:id/resume", s.destinationResume},
		{post, "/destinations/:id/delete", s.destinationDelete},
		{post, "/destinations/:id/rotate", s.destinationRotate},
		{post, "/destinations/:id/test", s.destinationTest},

		{get, "/deliveries", s.deliveryListPage},
		{get, "/deliveries/:id", s.deliveryPage},
		{get, "/deliveries/:id/payload", s.deliveryPayload},
		{post, "/deliveries/:id/replay", s.deliveryReplay},

		{get, "/discovery", s.discoveryPage},

		{get, "/tokens", s.tokenPage},
		{post, "/tokens", s.tokenCreate},
		{post, "/tokens/:id/revoke", s.tokenRevoke},
	} {
		e.Add(r.method, r.path, r.handler, signedIn...)
	}
}
