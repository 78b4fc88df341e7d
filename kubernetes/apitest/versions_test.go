package apitest_test

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
)

// The semantics of resourceVersion: the tables in the documentation of API concepts, as refined by
// KEP-2340 (consistent reads from cache), KEP-3157 (watch lists), KEP-4988 (snapshots in the
// cache), and apiserver's code. The tests request every combination of parameters, for built-in and
// custom kinds, in a namespace and in all. The first rule that matches defines the expected
// response.

const widgetDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// revisionNames are the names of the revisions in the tests. Type history has their values.
var revisionNames = []string{"", "0", "past", "now", "future", "tooOld", "invalid"}

// history describes the objects that exist before the requests: m0 (at "tooOld", which is
// compacted), m1, m2 (at "past"), m3 (at "now").
type history struct {
	list, object string
	apiVersion   string
	rv           map[string]string
	// token continues after m0 at "now". expired continues at a compacted revision, and latest in
	// the state at the time of the request.
	tokens map[string]string
}

func newHistory(t *testing.T, p *apitest.Plane, list, create, apiVersion, kind string) *history {
	t.Helper()
	h := &history{list: list, object: create + "/m0", apiVersion: apiVersion,
		rv: map[string]string{"": "", "0": "0", "invalid": "x"}, tokens: map[string]string{"": ""}}
	make := func(name string) string {
		obj := p.Want(t, 201, "POST", create, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}}`,
			apiVersion, kind, name))
		return apitest.At(obj, "metadata", "resourceVersion").(string)
	}
	continued := func() string {
		page := p.Want(t, 200, "GET", list+"?limit=1", "")
		return apitest.At(page, "metadata", "continue").(string)
	}
	h.rv["tooOld"] = make("m0")
	make("m1")
	h.tokens["expired"] = continued()
	if err := p.Store.Compact(p.Store.Snapshot().Revision() + 1); err == nil {
		t.Fatal("want an error for the compaction of a future revision")
	}
	h.rv["past"] = make("m2")
	require.NoError(t, p.Store.Compact(p.Store.Snapshot().Revision()))
	h.rv["now"] = make("m3")
	h.tokens["valid"] = continued()
	now, err := strconv.Atoi(h.rv["now"])
	require.NoError(t, err)
	h.rv["future"] = strconv.Itoa(now + 1000)
	h.tokens["garbage"] = "nonsense"
	return h
}

// question is a request of the matrix.
type question struct {
	rv, match, limit, token string
	send                    string // sendInitialEvents
	bookmarks               bool
}

func (q question) query(h *history) string {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set("resourceVersion", h.rv[q.rv])
	set("resourceVersionMatch", q.match)
	set("limit", q.limit)
	set("continue", h.tokens[q.token])
	set("sendInitialEvents", q.send)
	if q.bookmarks {
		set("allowWatchBookmarks", "true")
	}
	return v.Encode()
}

// answer is the expected response.
type answer struct {
	code    int
	message string // a part of it
	// names are the objects, and rv is the name of the list's revision.
	names, rv string
	more      bool // there is a continue token
}

type rule struct {
	name string // and its source
	when func(question) bool
	want answer
}

func first(t *testing.T, rules []rule, q question) rule {
	for _, r := range rules {
		if r.when(q) {
			return r
		}
	}
	t.Fatalf("no rule for %+v", q)
	return rule{}
}

const allNames, pastNames = "m0 m1 m2 m3", "m0 m1 m2"

func anything(question) bool { return true }

// exact reports whether a list must show exactly the requested revision: with
// resourceVersionMatch=Exact, or with a limit and a resourceVersion.
func exact(q question) bool {
	return q.match == "Exact" || q.match == "" && q.limit != "" && q.rv != "" && q.rv != "0"
}

// limited reports whether the limit applies. The cache ignores it at revision 0
// (cacher.computeListLimit).
func limited(q question) bool { return q.limit != "" && q.rv != "0" }

// listRules returns the expected answers to lists, each with its source. The first rule that
// matches a request applies.
func listRules() []rule {
	const validation = "apimachinery internalversion/validation.ValidateListOptions: "
	const storage = "apiserver storage.ValidateListOptions: "
	return []rule{
		{validation + "resourceVersionMatch needs a resourceVersion", func(q question) bool {
			return q.match != "" && q.rv == ""
		},
			answer{code: 422, message: "resourceVersionMatch is forbidden unless resourceVersion is provided"}},
		{validation + "resourceVersionMatch is not allowed with a continue token", func(q question) bool {
			return q.match != "" && q.token != ""
		},
			answer{code: 422, message: "resourceVersionMatch is forbidden when continue is provided"}},
		{validation + "unknown resourceVersionMatch", func(q question) bool { return q.match == "Some" },
			answer{code: 422, message: `Unsupported value: "Some": supported values: "Exact", "NotOlderThan", ""`}},
		{validation + "Exact is not allowed at revision 0", func(q question) bool {
			return q.match == "Exact" && q.rv == "0"
		},
			answer{code: 422, message: `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`}},

		{storage + "invalid continue token", func(q question) bool { return q.token == "garbage" },
			answer{code: 400, message: "invalid continue token: continue key is not valid"}},
		{storage + "resourceVersion is not allowed with a continue token", func(q question) bool {
			return q.token != "" && q.rv != "" && q.rv != "0"
		},
			answer{code: 400, message: "specifying resource version is not allowed when using continue"}},
		{"etcd3.handleCompactedErrorForPaging: a page whose snapshot is compacted", func(q question) bool {
			return q.token == "expired"
		},
			answer{code: 410, message: "The provided continue parameter is too old to display a consistent list result. You can start a new list without " +
				"the continue parameter, or use the continue token in this response", more: true}},
		{"KEP-365: later pages have the revision of the first page", func(q question) bool {
			return q.token == "valid" && limited(q)
		},
			answer{code: 200, names: "m1", rv: "now", more: true}},
		{"KEP-365: a page without a limit has all remaining objects", func(q question) bool {
			return q.token == "valid"
		},
			answer{code: 200, names: "m1 m2 m3", rv: "now"}},

		{storage + "a revision must be a number", func(q question) bool { return q.rv == "invalid" },
			answer{code: 400, message: `invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`}},
		{"cacher.waitUntilFreshLocked: a future revision", func(q question) bool { return q.rv == "future" },
			answer{code: 504, message: "Too large resource version: "}},
		{"etcd3.interpretListError: Exact at a compacted revision", func(q question) bool {
			return exact(q) && q.rv == "tooOld"
		},
			answer{code: 410, message: "The resourceVersion for the provided list is too old."}},
		{"API concepts, Exact, with a limit", func(q question) bool {
			return exact(q) && q.rv == "past" && q.limit != ""
		},
			answer{code: 200, names: "m0", rv: "past", more: true}},
		{"API concepts, Exact", func(q question) bool { return exact(q) && q.rv == "past" },
			answer{code: 200, names: pastNames, rv: "past"}},
		{"API concepts, Exact or newest, with a limit", limited, answer{code: 200, names: "m0", rv: "now", more: true}},
		{"API concepts: Most Recent, Any, Not older than, and KEP-2340: all read the newest state here", anything,
			answer{code: 200, names: allNames, rv: "now"}},
	}
}

// scopes runs a test for the kinds and paths of the matrix.
func scopes(t *testing.T, each func(t *testing.T, p *apitest.Plane, h *history)) {
	for _, c := range []struct{ name, list, create, apiVersion, kind string }{
		{"built-in in a namespace", maps, maps, "v1", "ConfigMap"},
		{"built-in of all namespaces", "/api/v1/configmaps", maps, "v1", "ConfigMap"},
		{"built-in without namespace", "/api/v1/persistentvolumes", "", "v1", "PersistentVolume"},
		{"custom in a namespace", widgets, widgets, "example.com/v1", "Widget"},
		{"custom of all namespaces", "/apis/example.com/v1/widgets", widgets, "example.com/v1", "Widget"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // reads at a future revision wait for it
				p := apitest.New(t)
				p.Define(t, widgetDefinition)
				if c.create == "" { // objects of the kind need only a name
					c.create, c.list, c.kind, c.apiVersion = nodes, nodes, "Node", "v1"
				}
				each(t, p, newHistory(t, p, c.list, c.create, c.apiVersion, c.kind))
			})
		})
	}
}

const (
	widgets = "/apis/example.com/v1/namespaces/default/widgets"
	nodes   = "/api/v1/nodes"
)

// Each combination of resourceVersion, resourceVersionMatch, limit and continue token gets the
// answer of the first rule that matches.
func TestListVersions(t *testing.T) {
	scopes(t, func(t *testing.T, p *apitest.Plane, h *history) {
		cells := 0
		for _, rv := range revisionNames {
			for _, match := range []string{"", "Exact", "NotOlderThan", "Some"} {
				for _, limit := range []string{"", "1"} {
					for _, token := range []string{"", "valid", "expired", "garbage"} {
						q := question{rv: rv, match: match, limit: limit, token: token}
						r := first(t, listRules(), q)
						list := p.Want(t, r.want.code, "GET", h.list+"?"+q.query(h), "")
						checkAnswer(t, fmt.Sprintf("LIST %+v by %q", q, r.name), r.want, list, h)
						cells++
					}
				}
			}
		}
		t.Logf("%d cells", cells)
		status := p.Want(t, 422, "GET", h.list+"?sendInitialEvents=true", "")
		if !strings.Contains(status["message"].(string), "sendInitialEvents is forbidden for list") {
			t.Error(status)
		}
		// The token of an expired page continues in the state at the time of the request, and the
		// following pages are consistent with that.
		status = p.Want(t, 410, "GET", h.list+"?limit=1&continue="+url.QueryEscape(h.tokens["expired"]), "")
		token := apitest.At(status, "metadata", "continue").(string)
		list := p.Want(t, 200, "GET", h.list+"?limit=1&continue="+url.QueryEscape(token), "")
		checkAnswer(t, "LIST continues after 410", answer{names: "m1", rv: "now", more: true}, list, h)
		assert.Equalf(t, list["metadata"].(apitest.Object)["remainingItemCount"], 2.0, "%v", list["metadata"])
		// A list of one object by name is read like a GET and ignores limit and token (Recursive:
		// false in registry.Store.ListPredicate).
		if h.list == widgets || h.list == maps || h.list == nodes {
			for query, want := range map[string]answer{
				"&limit=1&resourceVersion=" + h.rv["past"]:                             {names: "m3", rv: "now"},
				"&limit=1&continue=nonsense":                                           {names: "m3", rv: "now"},
				"&resourceVersionMatch=Exact&resourceVersion=" + h.rv["past"]:          {names: "", rv: "past"},
				"&resourceVersionMatch=NotOlderThan&resourceVersion=" + h.rv["tooOld"]: {names: "m3", rv: "now"},
			} {
				list := p.Want(t, 200, "GET", h.list+"?fieldSelector=metadata.name%3Dm3"+query, "")
				checkAnswer(t, "LIST by name "+query, want, list, h)
			}
		}
	})
}

func checkAnswer(t *testing.T, what string, want answer, obj apitest.Object, h *history) {
	t.Helper()
	message, _ := obj["message"].(string)
	assert.Containsf(t, message, want.message, "%s: message", what)
	if token, _ := apitest.At(obj, "metadata", "continue").(string); (token != "") != want.more {
		t.Errorf("%s: %v, want a continue token: %v", what, obj["metadata"], want.more)
	}
	if want.code >= 400 {
		return
	}
	assert.Equalf(t, strings.Join(names(obj), " "), want.names, "%s", what)
	if got := apitest.At(obj, "metadata", "resourceVersion"); got != h.rv[want.rv] {
		t.Errorf("%s: resourceVersion %v, want %v (%s)", what, got, h.rv[want.rv], want.rv)
	}
}

// A GET returns the newest state for each past resourceVersion. A future one gets 504, and an
// invalid one 500.
func TestGetVersions(t *testing.T) {
	scopes(t, func(t *testing.T, p *apitest.Plane, h *history) {
		for rv, want := range map[string]answer{
			// not older than
			"": {code: 200}, "0": {code: 200}, "past": {code: 200}, "now": {code: 200}, "tooOld": {code: 200},
			"future": {code: 504, message: "Too large resource version: "},
			// cacher.Get returns an error that is not a Status.
			"invalid": {code: 500, message: `resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`},
		} {
			obj := p.Want(t, want.code, "GET", h.object+"?"+question{rv: rv}.query(h), "")
			message, _ := obj["message"].(string)
			assert.Containsf(t, message, want.message, "GET at %q", rv)
		}
		gone := strings.TrimSuffix(h.object, "m0") + "none"
		p.Want(t, 404, "GET", gone+"?resourceVersion="+h.rv["now"], "")
		status := p.Want(t, 504, "GET", gone+"?resourceVersion="+h.rv["future"], "")
		assert.Equalf(t, apitest.At(status, "details", "retryAfterSeconds"), 1.0, "%v", status)
	})
}

// stream is the expected beginning of a watch: the status code, and the events until it is idle.
type stream struct {
	answer
	events []string
}

type watchRule struct {
	name string
	when func(question) bool
	want stream
}

// watchRules returns the expected answers to watches, each with its source. The first rule that
// matches a request applies.
func watchRules() []watchRule {
	const validation = "apimachinery internalversion/validation.validateWatchOptions: "
	added := []string{"ADDED m0", "ADDED m1", "ADDED m2", "ADDED m3"}
	refused := func(code int, message string) stream { return stream{answer: answer{code: code, message: message}} }
	legacy := func(q question) bool { return q.send == "" && (q.rv == "" || q.rv == "0") }
	return []watchRule{
		{validation + "resourceVersionMatch needs sendInitialEvents", func(q question) bool {
			return q.match != "" && q.send == ""
		},
			refused(422, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")},
		{validation + "sendInitialEvents needs NotOlderThan", func(q question) bool {
			return q.send != "" && q.match != "NotOlderThan"
		},
			refused(422, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")},
		{"cacher.Watch: a revision must be a number, and the error is not a Status", func(q question) bool {
			return q.rv == "invalid"
		},
			refused(500, `resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`)},
		{"cacher.waitUntilFreshLocked: initial events of a future revision", func(q question) bool {
			return q.send == "true" && q.rv == "future"
		},
			stream{answer{code: 200, message: "Timeout: Too large resource version: "}, []string{"ERROR"}}},
		{"KEP-3157: initial events, then the bookmark; requested, or by metainternalversion.SetListOptionsDefaults without a revision",
			func(q question) bool { return (q.send == "true" || legacy(q)) && q.bookmarks },
			stream{answer{code: 200}, append(added, "INITIAL-END")}},
		{"API concepts: initial events", func(q question) bool { return q.send == "true" || legacy(q) },
			stream{answer{code: 200}, added}},
		{"KEP-3157: sendInitialEvents=false without a revision, or at 0: only new events", func(q question) bool {
			return q.rv == "" || q.rv == "0"
		},
			stream{answer{code: 200}, nil}},
		{"API concepts, start at exact: the events after the revision", func(q question) bool { return q.rv == "past" },
			stream{answer{code: 200}, []string{"ADDED m3"}}},
		{"watchCacheHistory.GetIntervalLocked: from a compacted revision", func(q question) bool {
			return q.rv == "tooOld"
		},
			stream{answer{code: 200, message: "too old resource version: "}, []string{"ERROR"}}},
		{"API concepts, start at exact: no events after the revision", anything, stream{answer{code: 200}, nil}},
	}
}

// Each combination of resourceVersion, resourceVersionMatch, sendInitialEvents and bookmarks gets
// the answer of the first rule that matches.
func TestWatchVersions(t *testing.T) {
	scopes(t, func(t *testing.T, p *apitest.Plane, h *history) {
		cells := 0
		for _, rv := range revisionNames {
			for _, match := range []string{"", "Exact", "NotOlderThan", "Some"} {
				for _, send := range []string{"", "true", "false"} {
					for _, bookmarks := range []bool{false, true} {
						q := question{rv: rv, match: match, send: send, bookmarks: bookmarks}
						var r watchRule
						for _, r = range watchRules() {
							if r.when(q) {
								break
							}
						}
						askWatch(t, p, h, q, r)
						cells++
					}
				}
			}
		}
		t.Logf("%d cells", cells)
	})
}

func askWatch(t *testing.T, p *apitest.Plane, h *history, q question, r watchRule) {
	t.Helper()
	what := fmt.Sprintf("WATCH %+v by %q", q, r.name)
	path := h.list + "?watch=1&" + q.query(h)
	if r.want.code != 200 {
		status := p.Want(t, r.want.code, "GET", path, "")
		checkAnswer(t, what, r.want.answer, status, h)
		return
	}
	s := p.Watch(t, path)
	defer s.Close()
	var got []string
	for len(got) < len(r.want.events) {
		typ, obj, ok := s.Next(t)
		switch {
		case !ok:
			t.Fatalf("%s: ended after %v", what, got)
		case typ == "ERROR":
			message := obj["message"].(string)
			assert.Containsf(t, message, r.want.message, "%s", what)
			if obj["kind"] != "Status" || obj["apiVersion"] != "v1" {
				t.Errorf("%s: %v", what, obj)
			}
			got = append(got, typ)
		case typ == "BOOKMARK":
			if apitest.At(obj, "metadata", "annotations", "k8s.io/initial-events-end") != "true" ||
				apitest.At(obj, "metadata", "resourceVersion") != h.rv["now"] || obj["apiVersion"] != h.apiVersion {
				t.Errorf("%s: %v", what, obj)
			}
			got = append(got, "INITIAL-END")
		default:
			got = append(got, typ+" "+apitest.At(obj, "metadata", "name").(string))
		}
	}
	assert.Slicef(t, got, r.want.events, "%s", what)
	if slices.Contains(r.want.events, "ERROR") {
		if typ, obj, ok := s.Next(t); ok {
			t.Errorf("%s: %s %v after the error", what, typ, obj)
		}
	}
}
