package filters

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/rest/wire"
)

// dispatch calls the handler of a request.
func (c *Chain) dispatch(w http.ResponseWriter, req *http.Request) {
	callOf(req).allowed = true
	if strings.HasPrefix(req.URL.Path, "//") {
		notFound(w, req) // kube-apiserver's router has no such paths either
		return
	}
	if info, _ := request.RequestInfoFrom(req.Context()); info.IsResourceRequest && c.cfg.Resources != nil {
		if callOf(req).longRunning {
			defer c.unbounded(callOf(req))()
			if c.metrics != nil {
				defer c.metrics.longRunning(req, info)()
			}
		}
		c.cfg.Resources.ServeHTTP(w, req)
		return
	}
	c.route(req.URL.Path).ServeHTTP(w, req)
}

// unbounded lifts the server's write deadline until the handler has returned. The client must then
// accept the rest within Config.Timeout. Servers in process have no write deadline.
func (c *Chain) unbounded(call *call) (over func()) {
	_ = call.answer.SetWriteDeadline(time.Time{})
	return func() {
		// another protocol may own the connection
		if call.answer.code != http.StatusSwitchingProtocols {
			_ = call.answer.SetWriteDeadline(time.Now().Add(c.cfg.Timeout))
		}
	}
}

// route returns the handler of a path: an exact match, or that of the longest prefix.
func (c *Chain) route(path string) http.Handler {
	if h, ok := c.paths[path]; ok {
		return h
	}
	for prefix := path; ; {
		i := strings.LastIndexByte(strings.TrimSuffix(prefix, "/"), '/')
		if i <= 0 {
			return http.HandlerFunc(notFound)
		}
		prefix = prefix[:i+1]
		if h, ok := c.paths[prefix]; ok {
			return h
		}
	}
}

// allPaths returns the paths of Config and those of the chain.
func (c *Chain) allPaths() map[string]http.Handler {
	all := map[string]http.Handler{
		"/":        http.HandlerFunc(c.index),
		"/version": wire.Document("application/json", c.version),
	}
	checked := newHealthSeries()
	for name, checks := range c.checks().byName() {
		h := newHealth(name, checks, checked)
		all["/"+name], all["/"+name+"/"] = h, h
	}
	all["/index.html"], all["/version/"] = all["/"], all["/version"]
	if c.cfg.Metrics != nil {
		all["/metrics"] = promhttp.HandlerFor(c.cfg.Metrics, promhttp.HandlerOpts{})
		all["/metrics/slis"] = checked.handler()
	}
	maps.Copy(all, c.cfg.Paths)
	return all
}

// ListedPaths returns all current paths that / lists, sorted.
func (c *Chain) ListedPaths() []string {
	paths := slices.DeleteFunc(slices.Collect(maps.Keys(c.paths)), func(p string) bool {
		return strings.HasSuffix(p, "/") || p == "/index.html"
	})
	for name, checks := range c.checks().byName() {
		for _, check := range withPing(checks) {
			paths = append(paths, "/"+name+"/"+check.Name)
		}
	}
	if c.cfg.Below != nil {
		paths = append(paths, c.cfg.Below()...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func (c *Chain) index(w http.ResponseWriter, req *http.Request) {
	wire.JSON(w, req, http.StatusOK, map[string][]string{"paths": c.ListedPaths()})
}

func (c *Chain) version(w http.ResponseWriter, req *http.Request) {
	wire.JSON(w, req, http.StatusOK, c.cfg.Version)
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "404 page not found", http.StatusNotFound)
}
