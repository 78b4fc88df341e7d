package controlplane

import (
	"net/http"
	"net/http/pprof"
)

// ProfilingPath is where profiles of the process can be read, by whom the authorizer lets.
const ProfilingPath = "/debug/pprof"

// profiling answers as kube-apiserver does: an index, and below it the profiles, of which some take the seconds that the query says.
func profiling() map[string]http.Handler {
	return map[string]http.Handler{
		ProfilingPath:              http.RedirectHandler(ProfilingPath+"/", http.StatusFound),
		ProfilingPath + "/":        http.HandlerFunc(pprof.Index),
		ProfilingPath + "/profile": http.HandlerFunc(pprof.Profile),
		ProfilingPath + "/symbol":  http.HandlerFunc(pprof.Symbol),
		ProfilingPath + "/trace":   http.HandlerFunc(pprof.Trace),
	}
}
