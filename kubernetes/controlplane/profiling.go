package controlplane

import (
	"net/http"
	"net/http/pprof"

	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/component-base/logs"
)

// ProfilingPath is the path that serves profiles of the process to authorized users.
const ProfilingPath = "/debug/pprof"

// profiling returns the handlers of the pages that kube-apiserver's flag --profiling turns on: the
// profiles, some of which run for the number of seconds in the query, and the verbosity of the logs
// of Kubernetes' libraries, which a PUT to /debug/flags/v sets.
func profiling() map[string]http.Handler {
	flags := mux.NewPathRecorderMux("debug flags")
	routes.DebugFlags{}.Install(flags, "v", routes.StringFlagPutHandler(logs.GlogSetter))
	return map[string]http.Handler{
		"/debug/flags":             flags,
		"/debug/flags/":            flags,
		ProfilingPath:              http.RedirectHandler(ProfilingPath+"/", http.StatusFound),
		ProfilingPath + "/":        http.HandlerFunc(pprof.Index),
		ProfilingPath + "/profile": http.HandlerFunc(pprof.Profile),
		ProfilingPath + "/symbol":  http.HandlerFunc(pprof.Symbol),
		ProfilingPath + "/trace":   http.HandlerFunc(pprof.Trace),
	}
}
