package rights

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	authnv1 "k8s.io/api/authentication/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Filter selects the events of an operator.
type Filter struct {
	// User is the name of the user, or of the user that a request impersonates. If it is empty,
	// UserAgent selects requests of all users, except those that impersonate one: they are
	// another user's.
	User string
	// UserAgent, if not empty, is the beginning of the User-Agent.
	UserAgent string
}

// Audit contains the requests of an operator, from an audit log.
type Audit struct {
	// Requests are sorted, without duplicates.
	Requests []Request
	// Names has the names of the objects in Requests.
	Names Names
	// Refused are the requests that RBAC refused, if the log has the messages of responses.
	Refused []Request
	// Events is the number of events of the operator.
	Events int
	// Users has the number of events of every user in the log.
	Users map[string]int
}

// FromAudit reads an audit log in JSON, as written with --audit-log-format=json. An incomplete last
// line is ignored, because the log may still be written. It omits requests that every authenticated
// user may make, for discovery and about the user itself, because they need no rule. It includes
// refused requests.
func FromAudit(log io.Reader, filter Filter) (Audit, error) {
	a := Audit{Users: map[string]int{}, Names: Names{}}
	found, refused := map[Request]bool{}, map[Request]bool{}
	in := bufio.NewReader(log)
	for number := 1; ; number++ {
		line, end := in.ReadBytes('\n')
		if end != nil && end != io.EOF {
			return a, fmt.Errorf("read audit log: %w", end)
		}
		if end == io.EOF && len(line) > 0 && !json.Valid(line) {
			line = nil
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var e auditv1.Event
			if err := json.Unmarshal(line, &e); err != nil {
				return a, fmt.Errorf("read audit log: line %d: %w", number, err)
			}
			if e.Kind != "Event" || !strings.HasPrefix(e.APIVersion, "audit.k8s.io/") {
				return a, fmt.Errorf("read audit log: line %d is not an audit event", number)
			}
			a.add(&e, filter, found, refused)
		}
		if end == io.EOF {
			a.Requests = slices.SortedFunc(maps.Keys(found), compare)
			a.Refused = slices.SortedFunc(maps.Keys(refused), compare)
			return a, nil
		}
	}
}

// selects reports whether a request with a user and a User-Agent is the operator's.
func (f Filter) selects(user, agent string) bool {
	return (f.User == "" || user == f.User) && strings.HasPrefix(agent, f.UserAgent)
}

func (a *Audit) add(e *auditv1.Event, filter Filter, found, refused map[Request]bool) {
	name := e.User.Username
	if other := e.ImpersonatedUser; other != nil {
		if name != other.Username && filter.selects(name, e.UserAgent) {
			a.Events++
			for _, r := range impersonations(other) {
				found[r] = true
			}
		}
		name = other.Username
	}
	a.Users[name]++
	if !filter.selects(name, e.UserAgent) || filter.User == "" && e.ImpersonatedUser != nil {
		return
	}
	a.Events++
	r, ok := request(e)
	if !ok {
		return
	}
	found[r] = true
	object := ""
	if e.ObjectRef != nil {
		object = e.ObjectRef.Name
	}
	a.Names.add(r, object)
	s := e.ResponseStatus
	if s == nil {
		return
	}
	// A server-side apply, and for some kinds an update, creates the object if it does not exist.
	// This needs the verb create too. Admission also refuses with 403.
	refusal := s.Code == http.StatusForbidden && strings.Contains(s.Message, "\" cannot ")
	upsert := r.Verb == "patch" || r.Verb == "update"
	if upsert && (s.Code == http.StatusCreated || refusal && strings.Contains(s.Message,
		"\" cannot create resource ")) {
		r.Verb = "create"
		found[r] = true
	}
	if refusal {
		refused[r] = true
	}
}

// impersonations returns the requests that RBAC must allow so that a user may impersonate another.
func impersonations(other *authnv1.UserInfo) []Request {
	as := Request{Verb: "impersonate", Resource: "users"}
	added := []string{user.AllAuthenticated} // groups that the server adds
	if namespace, _, err := serviceaccount.SplitUsername(other.Username); err == nil {
		as = Request{Verb: "impersonate", Resource: "serviceaccounts", Namespace: namespace}
		added = append(added, serviceaccount.MakeGroupNames(namespace)...)
	}
	all := []Request{as}
	if slices.ContainsFunc(other.Groups, func(group string) bool { return !slices.Contains(added, group) }) {
		all = append(all, Request{Verb: "impersonate", Resource: "groups"})
	}
	if other.UID != "" {
		all = append(all, Request{Verb: "impersonate", Group: authnv1.GroupName, Resource: "uids"})
	}
	for key := range other.Extra {
		all = append(all, Request{Verb: "impersonate", Group: authnv1.GroupName,
			Resource: "userextras/" + strings.ToLower(key)})
	}
	return all
}

// request returns the request of an event that needs a rule, and false if every authenticated user
// may make it.
func request(e *auditv1.Event) (Request, bool) {
	ref := e.ObjectRef
	if ref == nil || ref.Resource == "" {
		path, _, _ := strings.Cut(e.RequestURI, "?")
		return Request{Verb: e.Verb, URL: path}, e.Verb != "get" || !public(path)
	}
	r := Request{Verb: e.Verb, Group: ref.APIGroup, Resource: ref.Resource, Namespace: ref.Namespace}
	if ref.Subresource != "" {
		r.Resource += "/" + ref.Subresource
	}
	if r.Resource == "namespaces" || strings.HasPrefix(r.Resource, "namespaces/") {
		r.Namespace = "" // the namespace's own name, which only a ClusterRole can allow in general
	}
	self := r.Group == "authorization.k8s.io" && strings.HasPrefix(r.Resource, "selfsubject") ||
		r.Group == "authentication.k8s.io" && r.Resource == "selfsubjectreviews"
	return r, !self
}

// public reports whether Kubernetes' default roles allow every authenticated user to get a path.
func public(path string) bool {
	switch path {
	case "/healthz", "/livez", "/readyz", "/version", "/version/":
		return true
	}
	for _, prefix := range []string{"/api", "/apis", "/openapi"} {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return true
		}
	}
	return false
}

func compare(a, b Request) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource),
		strings.Compare(a.URL, b.URL),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Verb, b.Verb))
}
