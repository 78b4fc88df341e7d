// Package rights serves the view Rights: which rules of a user's roles its requests used, which
// were not used, and which are missing. The requests come from an audit log, the roles from the
// cluster.
package rights

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"kelson.dev/console/internal/cluster"
	"kelson.dev/console/internal/web"
	"kelson.dev/lab/rights"
	"kelson.dev/toolchain/gen/rbac"
)

// Server serves the requests of the view.
type Server struct {
	Cluster *cluster.Cluster
	// Log is the audit log of the cluster; empty: none.
	Log string
}

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) { mux.HandleFunc("GET /api/rights", s.rights) }

// State is the content of the page.
type State struct {
	Log   string `json:"log"`
	User  string `json:"user"`
	Users []User `json:"users"` // of the log, service accounts first
	// Requests are the different requests of the user; Events is the number of all its requests.
	Requests []Request `json:"requests"`
	Events   int       `json:"events"`
	// Rules are the rules of the roles that are bound to the user.
	Rules []Rule `json:"rules"`
	// Least are the roles that allow exactly the requests, as YAML.
	Least string `json:"least"`
	// Error is the reason why the roles are unknown. In this case, Rules is empty, and Missing of
	// all requests is false.
	Error *web.Error `json:"error,omitempty"`
}

// User is a user of the audit log.
type User struct {
	Name   string `json:"name"`
	Events int    `json:"events"`
}

// Request is a kind of request.
type Request struct {
	What    string `json:"what"` // such as "list pods in namespace shop"
	Missing bool   `json:"missing,omitempty"`
}

// Rule is a rule of a role.
type Rule struct {
	Kind      string   `json:"kind"`
	Role      string   `json:"role"`
	Binding   string   `json:"binding"`
	Namespace string   `json:"namespace,omitempty"`
	Resources []string `json:"resources"` // with their groups, or URLs
	// Names are the resourceNames, of which no request named UnusedNames. Group is the group of the
	// user that has the role; empty: the user itself.
	Names       []string `json:"names,omitempty"`
	UnusedNames []string `json:"unusedNames,omitempty"`
	Group       string   `json:"group,omitempty"`
	Verbs       []string `json:"verbs"`
	// Used are the verbs that requests needed, Unused the others. For the verb *, Unused is *.
	Used   []string `json:"used,omitempty"`
	Unused []string `json:"unused,omitempty"`
}

const (
	pace    = time.Second // interval at which the log is read
	maxUser = 200
)

// rights streams the state of the user that the request names, or of the busiest service account.
func (s *Server) rights(w http.ResponseWriter, r *http.Request) {
	user := r.URL.Query().Get("user")
	audit := newLog(s.Log, user)
	every := func() <-chan struct{} {
		tick := make(chan struct{})
		time.AfterFunc(pace, func() { close(tick) })
		return tick
	}
	web.States(r.Context(), w, every, pace, func(ctx context.Context) (any, error) {
		if s.Log == "" {
			return &State{Users: []User{}, Requests: []Request{}, Rules: []Rule{}}, nil
		}
		if err := audit.read(); err != nil {
			return nil, err
		}
		users := usersOf(audit.users)
		if audit.user == "" && len(users) > 0 {
			audit = newLog(s.Log, users[0].Name)
			if err := audit.read(); err != nil {
				return nil, err
			}
		}
		roles, err := boundRoles(ctx, s.Cluster, audit.user, audit.groups)
		state, compareErr := compare(audit.sorted(), audit.requests, roles, err == nil)
		if compareErr != nil {
			return nil, compareErr
		}
		state.Log, state.User, state.Users, state.Events = s.Log, audit.user, users, audit.events
		if err != nil {
			state.Error = web.AsError(err)
		}
		return state, nil
	})
}

// usersOf returns users by the number of their requests, service accounts of operators first.
func usersOf(events map[string]int) []User {
	all := []User{}
	for name := range maps.Keys(events) {
		all = append(all, User{name, events[name]})
	}
	rank := func(u User) int {
		switch {
		case strings.HasPrefix(u.Name, "system:serviceaccount:kube-system:"):
			return 1
		case strings.HasPrefix(u.Name, "system:serviceaccount:"):
			return 0
		case strings.HasPrefix(u.Name, "system:"):
			return 3
		}
		return 2
	}
	slices.SortFunc(all, func(a, b User) int {
		return cmp.Or(rank(a)-rank(b), b.Events-a.Events, strings.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), maxUser)]
}

// compare compares requests, which have the names of their objects, with the roles of their user.
func compare(requests []rights.Request, names map[rights.Request]map[string]bool, roles []bound,
	known bool) (*State, error) {
	state := &State{Users: []User{}, Requests: []Request{}, Rules: []Rule{}}
	for _, role := range roles {
		if role.Group {
			continue // these roles cannot be taken from the user
		}
		for _, rule := range role.Rules {
			state.Rules = append(state.Rules, ruleOf(role, rule, requests, names))
		}
	}
	for _, r := range requests {
		request := Request{What: r.String()}
		if known {
			var missing []string
			missing, request.Missing = missingNames(r, names[r], roles)
			if len(missing) > 0 {
				request.What += " named " + list(missing)
			}
		}
		state.Requests = append(state.Requests, request)
	}
	slices.SortStableFunc(state.Requests, func(a, b Request) int { return order(b.Missing) - order(a.Missing) })
	slices.SortStableFunc(state.Rules, func(a, b Rule) int {
		return order(len(b.Unused) > 0) - order(len(a.Unused) > 0)
	})
	if len(requests) > 0 {
		least, err := rbac.YAML(rights.Roles(rbac.DefaultRole, requests, nil))
		if err != nil {
			return nil, fmt.Errorf("least roles: %w", err)
		}
		state.Least = string(least)
	}
	return state, nil
}

// ruleOf compares a rule with the requests. Requests for names other than its resourceNames don't
// use it.
func ruleOf(role bound, rule rbacv1.PolicyRule, requests []rights.Request,
	names map[rights.Request]map[string]bool) Rule {
	shown := Rule{
		Kind: role.Kind, Role: role.Name, Binding: role.Binding, Namespace: role.Namespace, Group: role.Through,
		Resources: resources(rule), Names: rule.ResourceNames, Verbs: rule.Verbs,
		Used: slices.Sorted(slices.Values(rule.Verbs)),
	}
	declared := []rbac.Declaration{{Namespace: role.Namespace, Rule: rule}}
	if len(rule.ResourceNames) > 0 {
		named := func(r rights.Request, allowed []string) bool {
			return slices.ContainsFunc(allowed, func(name string) bool { return names[r][name] })
		}
		requests = slices.DeleteFunc(slices.Clone(requests), func(r rights.Request) bool {
			return !named(r, rule.ResourceNames)
		})
		for _, name := range rule.ResourceNames {
			used := slices.ContainsFunc(requests, func(r rights.Request) bool {
				return named(r, []string{name}) &&
					len(rights.Compare([]rights.Request{r},
						[]rbac.Role{{Namespace: role.Namespace, Rules: []rbacv1.PolicyRule{rule}}}, nil).Missing) == 0
			})
			if !used {
				shown.UnusedNames = append(shown.UnusedNames, name)
			}
		}
	}
	for _, u := range rights.Compare(requests, nil, declared).Unused {
		shown.Used, shown.Unused = u.Used, u.Verbs
		if len(u.Verbs) == 0 && slices.Contains(u.Rule.Verbs, "*") {
			shown.Unused = []string{"*"}
		}
	}
	return shown
}

// missingNames reports whether a request is not allowed for some of its names, and returns these
// names if it is allowed for others. It checks only one of the names that no rule has, because the
// result is the same for all of them.
func missingNames(r rights.Request, names map[string]bool, roles []bound) (missing []string, isMissing bool) {
	inRules := map[string]bool{}
	for _, role := range roles {
		for _, rule := range role.Rules {
			for _, name := range rule.ResourceNames {
				inRules[name] = true
			}
		}
	}
	if len(names) == 0 {
		names = map[string]bool{"": true}
	}
	var others, refused []string
	checked := 0
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !inRules[name] {
			others = append(others, name)
			continue
		}
		checked++
		if !allowed(r, name, roles) {
			refused = append(refused, name)
		}
	}
	if len(others) > 0 && !allowed(r, others[0], roles) {
		refused = append(refused, others...)
	}
	if len(refused) == checked+len(others) {
		return nil, len(refused) > 0 // for all names
	}
	return slices.DeleteFunc(refused, func(name string) bool { return name == "" }), len(refused) > 0
}

// allowed reports whether a role allows a request for a name.
func allowed(r rights.Request, name string, roles []bound) bool {
	var granted []rbac.Role
	for _, role := range roles {
		for _, rule := range role.Rules {
			if len(rule.ResourceNames) == 0 || name != "" && slices.Contains(rule.ResourceNames, name) {
				granted = append(granted, rbac.Role{Namespace: role.Namespace, Name: role.Name,
					Rules: []rbacv1.PolicyRule{rule}})
			}
		}
	}
	return len(rights.Compare([]rights.Request{r}, granted, nil).Missing) == 0
}

// list returns the first names, and the number of further ones.
func list(names []string) string {
	const shown = 5
	text := strings.Join(names[:min(len(names), shown)], ", ")
	if len(names) > shown {
		text += fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return text
}

func order(first bool) int {
	if first {
		return 1
	}
	return 0
}

// resources returns the resources of a rule, such as deployments.apps, and its URLs.
func resources(rule rbacv1.PolicyRule) []string {
	all := slices.Clone(rule.NonResourceURLs)
	for _, resource := range rule.Resources {
		for _, group := range rule.APIGroups {
			name, sub, isSub := strings.Cut(resource, "/")
			if group != "" {
				name += "." + group
			}
			if isSub {
				name += "/" + sub
			}
			all = append(all, name)
		}
	}
	return all
}
