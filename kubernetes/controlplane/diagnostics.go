package controlplane

import (
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/statusz"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/compatibility"
	zpages "k8s.io/component-base/zpages/features"
)

// diagnostics returns Kubernetes' own pages about the process: /statusz has its version, its start
// and the paths that it serves, and /flagz the values of its flags. The first request for a page
// builds it.
func diagnostics(flags map[string]string, effective compatibility.EffectiveVersion,
	paths func() []string) map[string]http.Handler {
	all := pages{}
	if utilfeature.DefaultFeatureGate.Enabled(zpages.ComponentStatusz) {
		all[statusz.DefaultStatuszPath] = lazily(func(m pages) {
			statusz.Install(m, component, statusz.NewRegistry(effective, statusz.WithListedPaths(paths())))
		})
	}
	if flags != nil && utilfeature.DefaultFeatureGate.Enabled(zpages.ComponentFlagz) {
		all[flagz.DefaultFlagzPath] = lazily(func(m pages) { flagz.Install(m, component, flagReader(flags)) })
	}
	return all
}

// component is the name that kube-apiserver has in its pages.
const component = "apiserver"

// flagReader implements [flagz.Reader].
type flagReader map[string]string

func (r flagReader) GetFlagz() map[string]string { return r }

// pages collects handlers from Kubernetes' install functions.
type pages map[string]http.Handler

func (m pages) Handle(path string, handler http.Handler) { m[path] = handler }

// lazily returns the only handler that an install function adds, which it calls for the first
// request.
func lazily(install func(pages)) http.Handler {
	handler := sync.OnceValue(func() http.Handler {
		m := pages{}
		install(m)
		for _, h := range m {
			return h
		}
		return http.NotFoundHandler()
	})
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { handler().ServeHTTP(w, req) })
}
