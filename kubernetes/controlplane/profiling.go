package controlplane

import (
	"net/http"
	"net/http/pprof"
)

// ProfilingPath is the path that serves profiles of the process to authorized users.
const ProfilingPath = "/debug/pprof"

// profiling returns the handlers of kube-apiserver's profiling pages: an index, and below it the
// profiles. Some profiles run for the number of seconds in the query.
func profiling() map[string]http.Handler {
	return map[string]http.Handler{
		ProfilingPath:              http.RedirectHandler(ProfilingPath+"/", http.StatusFound),
		ProfilingPath + "/":        http.HandlerFunc(pprof.Index),
		ProfilingPath + "/profile": http.HandlerFunc(pprof.Profile),
		ProfilingPath + "/symbol":  http.HandlerFunc(pprof.Symbol),
		ProfilingPath + "/trace":   http.HandlerFunc(pprof.Trace),
	}
}
