package deployed

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// refused matches the errors of requests that the authorizer refused, in text and in JSON.
var refused = regexp.MustCompile(`User \\*"([^"\\]+)\\*" cannot ([a-z]+) ` +
	`(?:path \\*"([^"\\]+)\\*"|resource \\*"([^"\\]+)\\*" in API group \\*"([^"\\]*)\\*")`)

// Refusals collects the requests of an operator that its roles do not allow. Its methods are safe
// for concurrent use.
type Refusals struct {
	user string

	mu   sync.Mutex
	seen map[string]bool
}

// User returns the user as which the operator sends requests: its Deployment's service account.
func (m *Manifests) User() string {
	return serviceaccount.MakeUsername(m.Manager.Namespace,
		cmp.Or(m.Manager.Spec.Template.Spec.ServiceAccountName, "default"))
}

// NewRefusals returns Refusals of the operator's requests.
func (m *Manifests) NewRefusals() *Refusals {
	return &Refusals{user: m.User(), seen: map[string]bool{}}
}

// Explain returns what is wrong and the next step if a line of the operator's output reports a
// refused request. It returns "" for other lines, and for requests that it has explained before.
func (r *Refusals) Explain(line string) string {
	found := refused.FindStringSubmatch(line)
	if found == nil || found[1] != r.user {
		return ""
	}
	verb, path, resource, group := found[2], found[3], found[4], found[5]
	what, marker := verb+" "+path, fmt.Sprintf("urls=%s,verbs=%s", path, verb)
	if resource != "" {
		what = verb + " " + resource
		if group != "" {
			base, sub, _ := strings.Cut(resource, "/")
			what = strings.TrimSuffix(verb+" "+base+"."+group+"/"+sub, "/")
		}
		marker = fmt.Sprintf("groups=%s,resources=%s,verbs=%s", cmp.Or(group, `""`), resource, verb)
	}
	if !r.first(what) {
		return ""
	}
	return fmt.Sprintf("the roles of %s do not allow it to %s: add +kubebuilder:rbac:%s, or the rule in "+
		"config/rbac; kelson rights --explore finds all that is missing", r.user, what, marker)
}

// first reports whether a request is new.
func (r *Refusals) first(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen[what]
	r.seen[what] = true
	return !seen
}
