package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"kelson.dev/console/internal/web"
)

// policy is the Content-Security-Policy of all responses: only the console's own files, no inline
// code or style, no other hosts, and no assignment of strings to places that parse HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard lets only the user's own browser use the console.
//
// The address that the console prints contains a token. A page load with the token gets a cookie,
// and the address without the token. All other requests need the cookie, so that other users of the
// machine and pages of other sites cannot make them:
//
//   - The Host must be one of the console's own, so that a site can't use a name that
//     resolves to this machine (DNS rebinding).
//   - Origin and Sec-Fetch-Site must be the console's own, if the browser sends them. Browsers
//     always send them for requests that other sites could forge.
//   - The cookie is HttpOnly and SameSite=Strict.
type guard struct {
	token  string
	cookie string // name, which differs between consoles on ports of one host
	hosts  []string
	secure bool
	next   http.Handler
}

// newGuard returns a guard for requests with one of the hosts, each with its port.
func newGuard(hosts []string, secure bool, next http.Handler) *guard {
	token := make([]byte, 16)
	_, _ = rand.Read(token) // always succeeds
	g := &guard{token: hex.EncodeToString(token), hosts: hosts, secure: secure, next: next}
	g.cookie = "kelson-console-" + g.session()[:8]
	return g
}

// session returns the value of the cookie. It is derived from the token, so that the token, which
// may remain in the shell's history, isn't in every request.
func (g *guard) session() string {
	mac := hmac.New(sha256.New, []byte(g.token))
	mac.Write([]byte("cookie"))
	return hex.EncodeToString(mac.Sum(nil))
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !slices.Contains(g.hosts, strings.ToLower(r.Host)) {
		web.Fail(w, web.Errorf(http.StatusMisdirectedRequest, "host %q is not an address of this console", r.Host))
		return
	}
	if err := g.checkOrigin(r); err != nil {
		web.Fail(w, err)
		return
	}
	if token := r.URL.Query().Get("token"); token != "" && r.Method == http.MethodGet && !isAPI(r) {
		if subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) != 1 {
			refuse(w, "The address has a wrong token. It was printed by another run of the console.")
			return
		}
		g.admit(w, r)
		return
	}
	cookie, err := r.Cookie(g.cookie)
	if err != nil || subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(g.session())) != 1 {
		if isAPI(r) {
			web.Fail(w, web.Errorf(http.StatusUnauthorized, "open the address that kelson printed"))
			return
		}
		refuse(w, "Open the address that kelson printed: it contains a token.")
		return
	}
	g.next.ServeHTTP(w, r)
}

func isAPI(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }

// checkOrigin refuses requests that a page of another site made.
func (g *guard) checkOrigin(r *http.Request) error {
	refused := web.Errorf(http.StatusForbidden, "requests from other sites are refused")
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || !slices.Contains(g.hosts, strings.ToLower(u.Host)) || (u.Scheme == "https") != g.secure {
			return refused
		}
	} else if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return refused // browsers always send it
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	}
	// A link on another page may open the console. Browsers do not send the cookie with this
	// request.
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		r.Method == http.MethodGet && !isAPI(r) {
		return nil
	}
	return refused
}

// admitted is the page that continues to the address without the token. It is not a redirect,
// because browsers send a SameSite=Strict cookie only after navigations that begin on the site.
var admitted = template.Must(template.New("").Parse(
	`<!doctype html><meta charset="utf-8"><title>Kelson</title><meta http-equiv="refresh" content="0;url={{.}}"><a href="{{.}}">Open the console</a>`))

func (g *guard) admit(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{
		Name: g.cookie, Value: g.session(), Path: "/", HttpOnly: true, Secure: g.secure,
		SameSite: http.SameSiteStrictMode,
	})
	// A path that begins with two slashes would be another host.
	target := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/")}
	query := r.URL.Query()
	query.Del("token")
	target.RawQuery = query.Encode()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = admitted.Execute(w, target.String())
}

var refused = template.Must(template.New("").Parse(
	`<!doctype html><html lang="en"><meta charset="utf-8"><title>Kelson</title><h1>Not signed in</h1><p>{{.}}</p></html>`))

func refuse(w http.ResponseWriter, why string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusUnauthorized)
	_ = refused.Execute(w, why)
}

// hosts returns the values of Host by which browsers reach a listener, and those of names.
func hosts(address *net.TCPAddr, names []string) []string {
	_, port, _ := net.SplitHostPort(address.String()) // a TCPAddr always has a port
	if address.IP.IsLoopback() {
		names = append([]string{"localhost", "127.0.0.1", "::1"}, names...)
	}
	if !address.IP.IsUnspecified() {
		names = append(names, address.IP.String())
	}
	var all []string
	for _, name := range names {
		all = append(all, strings.ToLower(net.JoinHostPort(name, port)))
		if port == "80" || port == "443" {
			all = append(all, strings.ToLower(name))
		}
	}
	return all
}
