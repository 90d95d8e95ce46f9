package web

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/web/ui"
)

// link is the path of the link that a page shows.
func (p *panel) link(body string) string {
	p.t.Helper()
	found := regexp.MustCompile(regexp.QuoteMeta(p.url) + `(/welcome\?token=[\w-]+)`).FindStringSubmatch(body)
	require.NotNil(p.t, found, "the page shows no link: %s", body)
	return found[1]
}

func (p *panel) accept(client *http.Client, link, name, password string) reply {
	p.t.Helper()
	token := strings.TrimPrefix(link, "/welcome?token=")
	return p.do(client, http.MethodPost, "/welcome", url.Values{"token": {token}, "name": {name}, "password": {password}})
}

func TestPeople(t *testing.T) {
	t.Parallel()

	t.Run("ALinkMakesAColleagueWithItsRoleOnce", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		made := p.post("/people", "note", "Vera from support", "role", "viewer", "hours", "24")
		require.Equal(t, http.StatusOK, made.Status)
		link := p.link(made.Body)
		require.NotContains(t, p.get("/people").Body, link, "it is shown once")
		require.Contains(t, p.get("/people").Body, "Vera from support")
		require.NotContains(t, p.log.String(), link)

		vera := p.browser()
		require.Contains(t, p.do(vera, http.MethodGet, link, nil).Body, "invites you as <strong>viewer</strong>")
		taken := p.accept(vera, link, "Ada", testPassword)
		require.Equal(t, http.StatusUnprocessableEntity, taken.Status)
		require.Contains(t, taken.Body, "has this name already")
		require.Equal(t, http.StatusSeeOther, p.accept(vera, link, "Vera", testPassword).Status, "a name that was taken has not spent the link")
		require.Equal(t, http.StatusOK, p.do(vera, http.MethodGet, "/destinations", nil).Status)
		require.Equal(t, http.StatusForbidden, p.do(vera, http.MethodGet, "/people", nil).Status)
		require.Equal(t, 1, p.count("SELECT count(*) FROM operator WHERE name = 'Vera' AND role = 'viewer'"))
		require.Equal(t, http.StatusGone, p.accept(p.browser(), link, "Eve", testPassword).Status)
		require.NotContains(t, p.get("/people").Body, "Vera from support")
		require.Equal(t, map[string]any{"role": "viewer", "hours": 24.0}, p.auditOf("person.invite")[0].After)
		require.Equal(t, "invited by Ada", p.auditOf("person.create")[0].Note)
	})

	t.Run("ALinkThatIsExpiredOrWithdrawnDoesNothing", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		old := p.link(p.post("/people", "role", "operator", "hours", "1").Body)
		p.exec("UPDATE invitation SET expires_at = now()")
		withdrawn := p.link(p.post("/people", "role", "operator", "hours", "1").Body)
		id := p.count("SELECT max(id)::int FROM invitation")
		require.Equal(t, http.StatusSeeOther, p.post("/invitations/"+formatID(idInvitation, int64(id))+"/revoke").Status)
		for link, says := range map[string]string{old: "has expired", withdrawn: "was withdrawn"} {
			res := p.accept(p.browser(), link, "Eve", testPassword)
			require.Equal(t, http.StatusGone, res.Status)
			require.Contains(t, res.Body, says)
		}
		require.Equal(t, 1, p.count("SELECT count(*) FROM operator"))
		for _, form := range [][]string{{"role", "owner", "hours", "1"}, {"role", "", "hours", "1"}, {"role", "viewer", "hours", "169"}, {"role", "viewer", "hours", "x"}} {
			require.Equal(t, http.StatusUnprocessableEntity, p.post("/people", form...).Status, form)
		}
	})

	t.Run("ThereIsAlwaysAnAdministrator", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		for _, action := range []string{"/people/usr_1/deactivate", "/people/usr_1/role"} {
			require.Equal(t, http.StatusSeeOther, p.post(action, "role", "viewer").Status)
			require.Contains(t, p.get("/people").Body, "this is the last administrator")
		}
		// Two who take each other's role at once: one of them stays.
		anna := p.as(ui.Administrator, "Anna")
		statuses := make(chan int, 2)
		for client, target := range map[*http.Client]string{p.client: "/people/usr_2/role", anna: "/people/usr_1/role"} {
			go func() {
				statuses <- p.do(client, http.MethodPost, target, url.Values{"role": {"viewer"}}).Status
			}()
		}
		<-statuses
		<-statuses
		require.Equal(t, 1, p.count("SELECT count(*) FROM operator WHERE role = 'administrator'"))
	})

	t.Run("WhoeverIsDeactivatedIsOutAtOnce", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		otto := p.as(ui.Operator, "Otto")
		link := p.link(p.post("/people/usr_2/password").Body)
		require.Equal(t, http.StatusSeeOther, p.post("/people/usr_2/deactivate").Status)
		require.Equal(t, "/login", p.do(otto, http.MethodGet, "/", nil).Location)
		again := p.do(otto, http.MethodPost, "/login", url.Values{"name": {"Otto"}, "password": {testPassword}})
		require.Equal(t, http.StatusUnprocessableEntity, again.Status)
		require.Equal(t, http.StatusGone, p.accept(p.browser(), link, "", testPassword).Status)
		require.Equal(t, "the account is deactivated", p.auditOf("sign_in_failed")[0].Note)

		require.Equal(t, http.StatusSeeOther, p.post("/people/usr_2/reactivate").Status)
		require.Equal(t, "/login", p.do(otto, http.MethodGet, "/", nil).Location, "the old session stays ended")
		again = p.do(otto, http.MethodPost, "/login", url.Values{"name": {"Otto"}, "password": {testPassword}})
		require.Equal(t, http.StatusSeeOther, again.Status)
	})

	t.Run("ALinkGivesANewPassword", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		otto := p.as(ui.Operator, "Otto")
		link := p.link(p.post("/people/usr_2/password").Body)
		visitor := p.browser()
		require.Contains(t, p.do(visitor, http.MethodGet, link, nil).Body, "Choose a new password")
		require.Equal(t, http.StatusSeeOther, p.accept(visitor, link, "Eve", "another long password").Status)
		require.Equal(t, 2, p.count("SELECT count(*) FROM operator WHERE name IN ('Ada', 'Otto')"), "the name is not the visitor's to choose")
		require.Equal(t, "/login", p.do(otto, http.MethodGet, "/", nil).Location, "what the old password opened has ended")
		require.Equal(t, http.StatusOK, p.do(visitor, http.MethodGet, "/", nil).Status)
		for password, status := range map[string]int{testPassword: http.StatusUnprocessableEntity, "another long password": http.StatusSeeOther} {
			res := p.do(p.browser(), http.MethodPost, "/login", url.Values{"name": {"Otto"}, "password": {password}})
			require.Equal(t, status, res.Status, password)
		}
	})
}

func TestAccount(t *testing.T) {
	t.Parallel()

	t.Run("AnotherPasswordTakesTheOldOneAndEndsOtherSessions", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		other := p.browser()
		require.Equal(t, http.StatusSeeOther, p.do(other, http.MethodPost, "/login", url.Values{"name": {"Ada"}, "password": {testPassword}}).Status)
		wrong := p.post("/account/password", "old", "not the password", "password", "another long password")
		require.Equal(t, http.StatusUnprocessableEntity, wrong.Status)
		require.Contains(t, wrong.Body, "This is not your password")
		require.Equal(t, 1, p.count("SELECT failures FROM operator"), "a wrong one counts as at the sign-in")
		require.Equal(t, http.StatusUnprocessableEntity, p.post("/account/password", "old", testPassword, "password", "short").Status)
		require.Equal(t, http.StatusOK, p.do(other, http.MethodGet, "/", nil).Status)

		require.Equal(t, http.StatusSeeOther, p.post("/account/password", "old", testPassword, "password", "another long password").Status)
		require.Equal(t, http.StatusOK, p.get("/account").Status, "the session that asked goes on")
		require.Equal(t, "/login", p.do(other, http.MethodGet, "/", nil).Location)
		require.Equal(t, 1, p.count("SELECT count(*) FROM session WHERE revoked_at IS NULL"))
	})

	t.Run("SessionsAreListedAndEnd", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		otto := p.as(ui.Operator, "Otto")
		page := p.do(otto, http.MethodGet, "/account", nil, "User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:147.0) Gecko Firefox/147.0 "+strings.Repeat("x", 1000))
		require.Equal(t, 1, strings.Count(page.Body, `data-testid="session"`), "one's own")
		require.Equal(t, 1, p.count("SELECT count(*) FROM session s JOIN operator o ON o.id = s.operator_id WHERE o.name = 'Otto' AND s.address = '127.0.0.1'"))
		require.LessOrEqual(t, p.count("SELECT max(length(user_agent)) FROM session"), maxUserAgent+3)

		var ada int64
		require.NoError(t, p.pool.QueryRow(t.Context(), "SELECT s.id FROM session s JOIN operator o ON o.id = s.operator_id WHERE o.name = 'Ada'").Scan(&ada))
		foreign := p.do(otto, http.MethodPost, "/account/sessions/"+formatID(idSession, ada)+"/revoke", url.Values{})
		require.Equal(t, http.StatusNotFound, foreign.Status, "nobody ends another's")
		require.Equal(t, http.StatusOK, p.get("/").Status)

		require.Equal(t, 2, strings.Count(p.get("/sessions").Body, `data-testid="session"`), "an administrator sees everybody's")
		var id int64
		require.NoError(t, p.pool.QueryRow(t.Context(), "SELECT s.id FROM session s JOIN operator o ON o.id = s.operator_id WHERE o.name = 'Otto'").Scan(&id))
		require.Equal(t, http.StatusSeeOther, p.post("/sessions/"+formatID(idSession, id)+"/revoke").Status)
		require.Equal(t, "/login", p.do(otto, http.MethodGet, "/", nil).Location)
		require.Equal(t, "Otto", p.auditOf("session.revoke")[0].Name)
	})

	t.Run("ARequestUnderWayDoesNotBringARevokedSessionBack", func(t *testing.T) {
		t.Parallel()
		p := newPanel(t).signIn()
		store := &sessionStore{p.pool, p.server.queries}
		var hash string
		var data []byte
		require.NoError(t, p.pool.QueryRow(t.Context(), "SELECT token_hash, data FROM session").Scan(&hash, &data))
		require.Equal(t, http.StatusSeeOther, p.post("/logout").Status)
		require.NoError(t, store.CommitCtx(t.Context(), hash, data, time.Now().Add(time.Hour)))
		_, found, err := store.FindCtx(t.Context(), hash)
		require.NoError(t, err)
		require.False(t, found)
	})
}
