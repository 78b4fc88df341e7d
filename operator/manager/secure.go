package manager

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"kelson.dev/operator/webhook"
)

// SecureMetrics serves metrics only to authorized clients: a client sends a bearer token, and the
// API server authenticates it and authorizes access to the path /metrics. The operator needs the
// permission to create TokenReviews and SubjectAccessReviews.
type SecureMetrics struct {
	// Certificates defaults to a self-issued certificate, kept in memory.
	Certificates webhook.Certificates
	// TLS, if not nil, changes the TLS configuration.
	TLS func(*tls.Config)
}

func (s *SecureMetrics) secure(m *Manager, g *group, l net.Listener,
	h http.Handler) (net.Listener, http.Handler, error) {
	certificates := s.Certificates
	if certificates == nil {
		host, _, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, nil, err
		}
		a := webhook.NewAuthority(webhook.AuthorityConfig{Names: []string{"localhost", host}, Log: m.cfg.Log})
		g.start(a)
		certificates = a
	}
	m.observe(certificates)
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: certificates.GetCertificate}
	if s.TLS != nil {
		s.TLS(config)
	}
	return tls.NewListener(l, config), &guard{m: m, next: h}, nil
}

// verdictLife is how long a decision of the API server is cached.
const verdictLife = time.Minute

// guard passes authorized requests to the next handler.
type guard struct {
	m    *Manager
	next http.Handler

	mu       sync.Mutex
	verdicts map[question]verdict
}

type question struct {
	token      [sha256.Size]byte
	verb, path string
}

type verdict struct {
	code int // 200, 401 or 403
	at   time.Time
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		http.Error(w, http.StatusText(http.StatusUnauthorized), http.StatusUnauthorized)
		return
	}
	q := question{sha256.Sum256([]byte(token)), strings.ToLower(r.Method), r.URL.Path}
	code, err := g.ask(r.Context(), q, token)
	if err != nil {
		g.m.cfg.Log.Error("authorize metrics request", "err", err)
		code = http.StatusInternalServerError
	}
	if code != http.StatusOK {
		http.Error(w, http.StatusText(code), code)
		return
	}
	g.next.ServeHTTP(w, r)
}

func (g *guard) ask(ctx context.Context, q question, token string) (int, error) {
	g.mu.Lock()
	v, cached := g.verdicts[q]
	g.mu.Unlock()
	if cached && time.Since(v.at) < verdictLife {
		return v.code, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	code, err := g.review(ctx, q, token)
	if err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.verdicts == nil || len(g.verdicts) >= 1000 {
		g.verdicts = map[question]verdict{}
	}
	g.verdicts[q] = verdict{code, time.Now()}
	return code, nil
}

func (g *guard) review(ctx context.Context, q question, token string) (int, error) {
	tokenReview := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := g.m.own.live.Create(ctx, tokenReview); err != nil {
		return 0, err
	}
	if !tokenReview.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := tokenReview.Status.User
	extra := map[string]authorizationv1.ExtraValue{} // for example, the scopes of the token
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	accessReview := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: q.path, Verb: q.verb},
	}}
	if err := g.m.own.live.Create(ctx, accessReview); err != nil {
		return 0, err
	}
	if !accessReview.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
