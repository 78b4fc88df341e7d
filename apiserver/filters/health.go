package filters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Check is one health check. Func returns nil if the check passes. The combined endpoints do not
// show its error; the check's own path does.
type Check struct {
	Name string
	Func func(context.Context) error
}

// Checks holds the checks of the three endpoints.
type Checks struct {
	Health, Live, Ready []Check
}

// byName returns the checks by the name of their endpoint.
func (c Checks) byName() map[string][]Check {
	return map[string][]Check{"healthz": c.Health, "livez": c.Live, "readyz": c.Ready}
}

// withPing prepends the check ping, which always passes.
func withPing(checks []Check) []Check {
	return append([]Check{{Name: "ping", Func: func(context.Context) error { return nil }}}, checks...)
}

// checks returns the checks of Config and the chain's own: /readyz fails from [Chain.Stopping] on.
func (c *Chain) checks() Checks {
	all := c.cfg.Checks
	all.Ready = append(slices.Clone(all.Ready), Check{Name: "shutdown", Func: func(context.Context) error {
		if c.stopping.Load() {
			return errors.New("process is shutting down")
		}
		return nil
	}})
	return all
}

// newHealth returns the handler of a health endpoint. As in kube-apiserver, it responds "ok" or
// 500. ?verbose lists all checks, ?exclude=name skips one, and each check also has its own path.
// The handler counts the results of checks in seen, except those of a check's own path.
func newHealth(name string, checks []Check, seen healthSeries) http.Handler {
	checks = withPing(checks)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if one, below := strings.CutPrefix(req.URL.Path, "/"+name+"/"); below {
			oneCheck(w, req, checks, one)
			return
		}
		allChecks(w, req, name, checks, seen)
	})
}

func oneCheck(w http.ResponseWriter, req *http.Request, checks []Check, name string) {
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		notFound(w, req)
		return
	}
	if err := checks[i].Func(req.Context()); err != nil {
		http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, "ok")
}

func allChecks(w http.ResponseWriter, req *http.Request, name string, checks []Check, seen healthSeries) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	query := req.URL.Query()
	excluded := query["exclude"]
	var report strings.Builder
	failed := false
	for _, check := range checks {
		if slices.Contains(excluded, check.Name) {
			excluded = slices.DeleteFunc(slices.Clone(excluded), func(s string) bool { return s == check.Name })
			fmt.Fprintf(&report, "[+]%s excluded: ok\n", check.Name)
			continue
		}
		err := check.Func(req.Context())
		seen.add(name, check.Name, err)
		if err != nil {
			failed = true
			fmt.Fprintf(&report, "[-]%s failed: reason withheld\n", check.Name)
			continue
		}
		fmt.Fprintf(&report, "[+]%s ok\n", check.Name)
	}
	if len(excluded) > 0 {
		fmt.Fprintf(&report, "warn: some health checks cannot be excluded: no matches for %s\n", quoted(excluded))
	}
	switch {
	case failed:
		http.Error(w, fmt.Sprintf("%s%s check failed", report.String(), name), http.StatusInternalServerError)
	case query.Has("verbose"):
		fmt.Fprintf(w, "%s%s check passed\n", report.String(), name)
	default:
		fmt.Fprint(w, "ok")
	}
}

// The limits on unknown names of ?exclude that a response shows: their number, and the bytes of
// each.
const (
	maxUnmatched     = 16
	maxUnmatchedName = 64
)

// quoted formats names as %q does, within these limits.
func quoted(names []string) string {
	shown := make([]string, 0, maxUnmatched)
	for _, name := range names[:min(len(names), maxUnmatched)] {
		if len(name) > maxUnmatchedName {
			name = name[:maxUnmatchedName] + "..."
		}
		shown = append(shown, name)
	}
	text := fmt.Sprintf("%q", shown)
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
