package explore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/lab/testenv"
)

// WatchList says whether the control plane serves watches that begin with a list, which have the
// parameter sendInitialEvents. Informers of client-go since 0.35 begin with such a watch. It is a
// consistent read: it may be late, but never old. If the server refuses it, as clusters without the
// feature WatchList do, informers send a list that may return an older state than the newest.
type WatchList string

const (
	// WatchListAuto serves them, except in plans with KillStale or KillOld. These restarts show an
	// older state only to lists.
	WatchListAuto WatchList = ""
	// WatchListServed serves them in all plans, and WatchListRefused in none.
	WatchListServed  WatchList = "served"
	WatchListRefused WatchList = "refused"
)

func (w WatchList) validate() error {
	switch w {
	case WatchListAuto, WatchListServed, WatchListRefused:
		return nil
	}
	return fmt.Errorf("%q is not one of %q and %q", string(w), WatchListServed, WatchListRefused)
}

// refusesWatchLists reports whether the server of a plan's run refuses watches that begin with a
// list.
func (e *explorer) refusesWatchLists(plan Plan) bool {
	switch e.scenario.WatchList {
	case WatchListServed:
		return false
	case WatchListRefused:
		return true
	}
	return e.withoutWatchLists || plan.stale()
}

// isStale reports whether a fault restarts the operator against a server whose cache is late.
func (k Kind) isStale() bool { return k == KillStale || k == KillOld }

// stale reports whether a plan has such a fault.
func (p Plan) stale() bool {
	for _, f := range p {
		if f.Kind.isStale() {
			return true
		}
	}
	return false
}

// view is an older state, which a server with a late cache shows.
type view struct {
	revision uint64
	stale    bool // of a restart
	// server has this state, and never changes. It is nil before the first read.
	server http.RoundTripper
}

// cachedRead reports whether a read may return an older state than the newest, and the revision
// that its response must have at least. A request says this by its resourceVersion.
//
//   - Without one, it returns the newest state.
//   - With 0, it may return any state.
//   - With another one, it returns one that is at least as new, or exactly this one if it has the
//     parameter limit or resourceVersionMatch=Exact.
//   - A watch with another one begins with the events after it, and reads no state, unless it
//     begins with a list.
//   - The later pages of a list are of the state of the first page.
func cachedRead(verb string, query url.Values) (cached bool, atLeast uint64) {
	version := query.Get("resourceVersion")
	switch {
	case version == "" || query.Get("continue") != "":
		return false, 0
	case version == "0":
		return true, 0
	case verb == "watch" && query.Get("sendInitialEvents") != "true":
		return false, 0
	}
	match, limit := query.Get("resourceVersionMatch"), query.Get("limit")
	if match == string(metav1.ResourceVersionMatchExact) ||
		verb == "list" && match == "" && limit != "" && limit != "0" {
		return false, 0
	}
	atLeast, err := strconv.ParseUint(version, 10, 64)
	return err == nil, atLeast
}

// everything is the key of the delays and views of all resources.
const everything = "*"

// keepPage remembers that the next page of a list comes from the same view.
func (p *process) keepPage(v *view, body []byte) {
	var list struct {
		Metadata metav1.ListMeta `json:"metadata"`
	}
	if json.Unmarshal(body, &list) != nil || list.Metadata.Continue == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pages == nil {
		p.pages = map[string]*view{}
	}
	p.pages[list.Metadata.Continue] = v
}

// watch sends a watch whose initial events are those of a view. The later events come from the
// newest server, so nothing is missing between both. It returns the number of initial events.
func (v *view) watch(r *http.Request, newest http.RoundTripper) (*http.Response, int, error) {
	query := r.URL.Query()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	resp, err := v.server.RoundTrip(withQuery(r.Clone(ctx), func(q url.Values) {
		q.Set("sendInitialEvents", "true")
		q.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
		q.Set("allowWatchBookmarks", "true")
		q.Del("resourceVersion")
	}))
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, 0, err
	}
	defer resp.Body.Close()
	var begin bytes.Buffer
	n, version := 0, ""
	for lines := bufio.NewReader(resp.Body); version == ""; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, 0, err
		}
		var event watchEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, 0, fmt.Errorf("explore: decode an event: %w", err)
		}
		if event.endsList() {
			version = event.Object.Metadata.ResourceVersion
			if query.Get("allowWatchBookmarks") != "true" {
				break
			}
		}
		begin.Write(line)
		n++
	}
	resp, err = newest.RoundTrip(withQuery(r, func(q url.Values) {
		q.Del("sendInitialEvents")
		q.Del("resourceVersionMatch")
		q.Set("resourceVersion", version)
	}))
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, 0, err
	}
	resp.Body = prefixed{io.MultiReader(&begin, resp.Body), resp.Body}
	return resp, n, nil
}

// prefixed is a body with more content before it.
type prefixed struct {
	io.Reader
	io.Closer
}

// withQuery returns a request with changed parameters.
func withQuery(r *http.Request, change func(url.Values)) *http.Request {
	query := r.URL.Query()
	change(query)
	changed := *r.URL
	changed.RawQuery = query.Encode()
	r = r.Clone(r.Context())
	r.URL = &changed
	return r
}

// watchEvent has the parts of an event of a watch that the explorer reads.
type watchEvent struct {
	Type   string
	Object struct {
		Kind     string
		Metadata metav1.ObjectMeta
	}
}

// endsList reports whether an event is the bookmark after the events of a list.
func (e *watchEvent) endsList() bool {
	return e.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] == "true"
}

// withoutWatchList is the response of a server without the feature WatchList to a watch with
// sendInitialEvents.
func withoutWatchList(r *http.Request) *http.Response {
	var options internalversion.ListOptions
	if err := internalscheme.ParameterCodec.DecodeParameters(r.URL.Query(), metav1.SchemeGroupVersion,
		&options); err != nil {
		return respond(r, apierrors.NewBadRequest(err.Error()))
	}
	options.Watch = true
	return respond(r, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "",
		validation.ValidateListOptions(&options, false)))
}

// staleServer says against which server the run of a plan with a stale restart took place; "" if
// the operator sends no watch lists, so that the run could be one of any cluster.
func (r *result) staleServer(plan Plan) string {
	if !plan.stale() || !r.sentWatchLists {
		return ""
	}
	return "the server refuses watch lists, as clusters without the feature WatchList do; where it serves them, informers of client-go since 0.35 never begin with an old state"
}

// base returns the group resource of a request, without a subresource.
func (c call) base() string {
	resource, _, _ := strings.Cut(c.resource, "/")
	return resource
}

// viewFor returns the view that answers a read of the operator, nil for the newest state. It
// records the reads that may be old.
func (in *injector) viewFor(p *process, c call) *view {
	p.mu.Lock()
	v := p.pages[c.page]
	p.mu.Unlock()
	if v != nil || !c.cached {
		return v
	}
	resource := c.base()
	in.result.cached[resource] = true
	for _, key := range []string{resource, everything} {
		v := in.delays.views[key]
		if v == nil || c.atLeast > v.revision {
			continue
		}
		if v.server == nil {
			fork := in.setup.env.ForkAt(in.setup.t, v.revision, testenv.NoControllers(), testenv.Nodes(nil),
				testenv.Requests(nil))
			v.server = fork.OperatorRESTConfig().Transport
		}
		if v.stale && in.history.changed[resource] > v.revision {
			in.result.sawOld = true
		}
		return v
	}
	return nil
}
