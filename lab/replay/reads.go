package replay

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// failedReads has the lists, watches and discovery documents whose last request by the operator
// failed. An operator retries them and logs the errors, and otherwise does nothing.
type failedReads struct {
	mu   sync.Mutex
	last map[string]string // the status, by what was read
}

var requestInfo = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// note records the response to a request.
func (f *failedReads) note(r *http.Request, resp *http.Response) {
	info, err := requestInfo.NewRequestInfo(r)
	if err != nil {
		return
	}
	var what string
	switch {
	case !info.IsResourceRequest && r.Method == http.MethodGet:
		what = info.Path
	case info.Verb != "list" && info.Verb != "watch":
		return
	case info.APIGroup == "":
		what = info.Resource
	default:
		what = info.Resource + "." + info.APIGroup
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if resp.StatusCode < 400 {
		delete(f.last, what)
		return
	}
	if f.last == nil {
		f.last = map[string]string{}
	}
	f.last[what] = resp.Status
}

// notes describes the failures.
func (f *failedReads) notes() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(f.last)) {
		all = append(all, fmt.Sprintf("the operator could not read %s: %s", what, f.last[what]))
	}
	return all
}
