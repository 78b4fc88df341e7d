package explore_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/operator/client"
)

// reader is the form in which a client reads a resource.
type reader struct {
	// list is the query of the first request, and watch is true if that is a watch.
	list  string
	watch bool
	// polls makes the client list again every ten seconds instead of watching.
	polls bool
	// blind makes the client watch from now on, instead of listing again, when a watch is not
	// possible.
	blind bool
	// accept is the header Accept of lists and watches.
	accept [2]string
}

const watchList = "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=400&watch=true"

var (
	jsonForm = [2]string{"application/json", "application/json"}
	// readers are the requests of informers: client-go 0.26 of 2022, 0.31 of 2024, which accepts
	// protobuf in controllers of built-in kinds, and 0.36 of 2026; and those of other clients.
	readers = map[string]reader{
		"2022": {list: "limit=500&resourceVersion=0", accept: jsonForm},
		"2024": {list: "limit=500&resourceVersion=0",
			accept: [2]string{"application/vnd.kubernetes.protobuf, application/json",
				"application/vnd.kubernetes.protobuf;stream=watch, application/json"}},
		"2026": {list: watchList, watch: true, accept: jsonForm},
		"metadata": {list: "limit=500&resourceVersion=0",
			accept: [2]string{"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
				"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}},
		"any watch": {list: "allowWatchBookmarks=true&resourceVersion=0&watch=true", watch: true,
			accept: jsonForm},
		"two pages":       {list: "limit=1&resourceVersion=0", accept: jsonForm},
		"polling":         {list: "resourceVersion=0", accept: jsonForm, polls: true},
		"blind":           {list: "limit=500&resourceVersion=0", accept: jsonForm, blind: true},
		"consistent":      {list: "limit=500", accept: jsonForm},
		"consistent 2026": {list: watchList, watch: true, accept: jsonForm},
	}
)

// wire is an operator that sends raw requests. It creates the Secret web-key, and then changes it
// twice, as long as its own view of Secrets says that this is needed.
type wire struct {
	reader
	mu  sync.Mutex
	log []string // what the processes have received since the first input
	// started is the number of processes, and first that of the one at the first input.
	started, first int
}

// note records a line of a process. Processes are numbered from 1 in each run.
func (p *wireProcess) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, fmt.Sprint(p.number-p.first+1)+" "+fmt.Sprintf(format, args...))
}

func (w *wire) scenario(mode explore.WatchList) explore.Scenario {
	return explore.Scenario{
		WatchList: mode,
		Operator: func(ctx context.Context, config *rest.Config) error {
			w.mu.Lock()
			w.started++
			p := &wireProcess{wire: w, number: w.started, transport: config.Transport, seen: map[string]string{},
				synced: map[string]bool{}}
			w.mu.Unlock()
			return p.run(ctx)
		},
		Inputs: []explore.Input{explore.Do("begin", func(context.Context, client.Client) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.log, w.first = nil, w.started
			return nil
		}), explore.Create(configMap("web"))},
		Keep: true,
	}
}

// wireProcess is a process of the operator.
type wireProcess struct {
	*wire
	number    int
	transport http.RoundTripper
	seen      map[string]string // the labels step of the Secrets, by name
	asked     bool              // a ConfigMap exists
	synced    map[string]bool   // the resources of which the first state is complete
}

// run follows ConfigMaps and Secrets, and acts after each event.
func (p *wireProcess) run(ctx context.Context) error {
	events := make(chan func())
	for _, resource := range []string{"configmaps", "secrets"} {
		go p.follow(ctx, resource, events)
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case change := <-events:
			change()
		}
		for p.asked && len(p.synced) == 2 && p.act(ctx) {
		}
	}
}

// act makes the next write. It returns true if the write should be repeated.
func (p *wireProcess) act(ctx context.Context) bool {
	step, exists := p.seen["web-key"]
	method, path, body := http.MethodPost, "/api/v1/namespaces/default/secrets",
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"web-key","labels":{"step":"1"}}}`
	switch {
	case exists && step == "3":
		return false
	case exists:
		next := map[string]string{"1": "2", "2": "3"}[step]
		method, path, body = http.MethodPatch, path+"/web-key", `{"metadata":{"labels":{"step":"`+next+`"}}}`
	}
	code, answer, err := p.send(ctx, method, path, "application/json", body)
	if ctx.Err() != nil {
		return false
	}
	p.note("%s: %d %v", method, code, err != nil)
	if code == http.StatusConflict {
		return false // the view is old: wait for an event
	}
	if err != nil || code >= 300 {
		time.Sleep(time.Second)
		return true
	}
	p.keep("", answer)
	return true
}

// keep keeps the state of an object.
func (p *wireProcess) keep(typ string, data []byte) {
	var obj struct {
		Metadata struct {
			Name   string
			Labels map[string]string
		}
	}
	if json.Unmarshal(data, &obj) != nil || obj.Metadata.Name != "web-key" {
		return
	}
	if typ == "DELETED" {
		delete(p.seen, obj.Metadata.Name)
		return
	}
	// an event may be late
	if step := obj.Metadata.Labels["step"]; step > p.seen[obj.Metadata.Name] {
		p.seen[obj.Metadata.Name] = step
	}
}

func (p *wireProcess) send(ctx context.Context, method, path, accept, body string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://server"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := p.transport.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, data, err
}

// follow reads a resource as an informer does, and begins again when a watch ends.
func (p *wireProcess) follow(ctx context.Context, resource string, events chan<- func()) {
	form, version := p.reader, ""
	for ctx.Err() == nil {
		if version == "" && !form.watch {
			version = p.list(ctx, resource, form.list, events)
			if version == "" {
				time.Sleep(time.Second)
				continue
			}
			if form.polls {
				time.Sleep(10 * time.Second)
				version = ""
				continue
			}
		}
		query := form.list
		if version != "" {
			query = "allowWatchBookmarks=true&timeoutSeconds=400&watch=true&resourceVersion=" + version
		}
		next, err := p.watch(ctx, resource, query, events)
		switch {
		case errors.Is(err, errRefused) && form.watch && version == "":
			form = readers["2022"] // the server has no watch lists
			continue
		case err != nil && form.blind: // the bug
			version, form.watch, form.list = "", true,
				"watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
		case err != nil:
			version = ""
		case next != "":
			version = next
		}
		time.Sleep(time.Second)
	}
}

// errRefused is the error of a watch that the server does not serve.
var errRefused = errors.New("refused")

// object is an object or a list on the wire.
type object struct {
	Kind     string
	Code     int
	Metadata struct {
		Name, ResourceVersion, Continue string
		Labels, Annotations             map[string]string
	}
	Items []json.RawMessage
}

// list reads all pages of a list, and returns its version.
func (p *wireProcess) list(ctx context.Context, resource, query string, events chan<- func()) string {
	var names []string
	version := ""
	for page := ""; ; {
		code, data, err := p.send(ctx, http.MethodGet, "/api/v1/"+resource+"?"+query+page, p.accept[0], "")
		var list object
		if err != nil || code != http.StatusOK || json.Unmarshal(data, &list) != nil {
			return ""
		}
		version = list.Metadata.ResourceVersion
		for _, item := range list.Items {
			names = append(names, nameOf(item)...)
			p.take(ctx, resource, "", item, events)
		}
		if list.Metadata.Continue == "" {
			break
		}
		page = "&continue=" + url.QueryEscape(list.Metadata.Continue)
	}
	p.note("list %s: %v", resource, names)
	p.complete(ctx, resource, events)
	return version
}

// nameOf returns the name and step of an object if it belongs to the test.
func nameOf(data []byte) []string {
	var obj object
	if json.Unmarshal(data, &obj) != nil || !strings.HasPrefix(obj.Metadata.Name, "web") {
		return nil
	}
	return []string{obj.Metadata.Name + obj.Metadata.Labels["step"]}
}

// take passes an object of the test to the process.
func (p *wireProcess) take(ctx context.Context, resource, typ string, data []byte, events chan<- func()) {
	if nameOf(data) == nil {
		return
	}
	change := func() {
		p.keep(typ, data)
		p.asked = p.asked || resource == "configmaps"
	}
	select {
	case events <- change:
	case <-ctx.Done():
	}
}

// complete records that the process has the first state of a resource.
func (p *wireProcess) complete(ctx context.Context, resource string, events chan<- func()) {
	select {
	case events <- func() { p.synced[resource] = true }:
	case <-ctx.Done():
	}
}

// watch follows a watch to its end. It returns the last version, and an error if a list must
// follow.
func (p *wireProcess) watch(ctx context.Context, resource, query string,
	events chan<- func()) (version string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server/api/v1/"+resource+"?"+query, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Accept", p.accept[1])
	resp, err := p.transport.RoundTrip(r)
	if err != nil {
		return "", nil // the client tries again, from the same version
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(resp.Body)
		var status struct{ Message string }
		_ = json.Unmarshal(data, &status) // an empty message fails the test
		p.note("watch %s: %d %s", resource, resp.StatusCode, status.Message)
		if resp.StatusCode == http.StatusUnprocessableEntity {
			return "", errRefused
		}
		return "", fmt.Errorf("status %d", resp.StatusCode)
	}
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return version, nil
		}
		var event struct {
			Type   string
			Object json.RawMessage
		}
		var obj object
		if json.Unmarshal(bytes.TrimSpace(line), &event) != nil || json.Unmarshal(event.Object, &obj) != nil {
			return version, errors.New("not an event")
		}
		if event.Type == "ERROR" {
			p.note("error %s: %d", resource, obj.Code)
			return "", errors.New("error event")
		}
		version = obj.Metadata.ResourceVersion
		if names := nameOf(event.Object); names != nil {
			p.note("%s %s", event.Type, names[0])
		}
		p.take(ctx, resource, event.Type, event.Object, events)
		if obj.Metadata.Annotations["k8s.io/initial-events-end"] == "true" ||
			strings.Contains(query, "resourceVersion=0") {
			// a watch with version 0 has no bookmark after the first state
			p.complete(ctx, resource, events)
		}
	}
}

// inOrder returns the first of the wanted lines that does not follow the ones before it.
func inOrder(log, want []string) string {
	for _, line := range want {
		at := slices.IndexFunc(log, func(l string) bool { return strings.HasPrefix(l, line) })
		if at < 0 {
			return line
		}
		log = log[at+1:]
	}
	return ""
}

// Each fault of reads and writes has its effect on the wire, for requests in the form of the
// clients of 2022, 2024 and 2026 and of other ones.
func TestFaultsOnTheWire(t *testing.T) {
	const (
		create, patch = "create secrets default/web-key #1", "patch secrets default/web-key #1"
		refused       = "watch secrets: 422 "
	)
	informers := []string{"2022", "2024", "2026", "metadata"}
	for plan, test := range map[string]struct {
		readers []string
		want    []string // lines that the processes receive, in this order
		never   string   // a line that they don't receive
	}{
		// the next process does not see the Secret, although the server has it
		"kill-stale " + create: {informers, []string{"2 list secrets: []", "2 POST: 409", "2 ADDED web-key1",
			"2 PATCH: 200"}, ""},
		"kill-stale " + patch: {informers, []string{"2 list secrets: [web-key1]", "2 MODIFIED web-key2"}, ""},
		// the process after it reads the newest state
		"kill-after " + create:    {informers, []string{"2 PATCH: 200"}, "1 POST: 201 false"},
		"lose-response " + create: {[]string{"2022", "2026"}, []string{"1 POST: 0 true", "1 POST: 409 false"}, ""},
		"slow-response " + create: {[]string{"2022", "2026"}, []string{"1 ADDED web-key1", "1 POST: 201 false"},
			""},
		"too-many-requests " + create: {[]string{"2022", "2026"}, []string{"1 POST: 429 false", "1 POST: 201 false"},
			""},
		"internal-error " + create: {[]string{"2022", "2026"}, []string{"1 POST: 500 false", "1 POST: 201 false"},
			""},
		"deny " + create: {[]string{"2022", "2026"},
			[]string{"1 POST: 403 false", "1 POST: 403 false", "1 POST: 201 false"}, ""},
		"revoke " + create: {informers, []string{"1 POST: 403 false", "1 POST: 201 false"}, ""},
		"quota " + create:  {informers, []string{"1 POST: 403 false", "1 POST: 201 false"}, ""},
		// the process sees the object of another client
		"occupied " + create: {informers, []string{"1 ADDED web-key", "1 POST: 409 false"}, "1 POST: 201 false"},
		// the watches end, and the server does not respond
		"server-restart " + create: {informers,
			[]string{"1 POST: 0 true", "1 POST: 0 true", "1 POST: 201 false"}, ""},
		"server-restart added secrets default/web-key #1": {informers[:2],
			[]string{"1 watch secrets: 410", "1 list secrets: [web-key"}, "1 ADDED web-key1"},
		// the event comes after the writes that follow it
		"freeze added secrets default/web-key #1": {informers,
			[]string{"1 POST: 201", "1 PATCH: 200", "1 PATCH: 200", "1 ADDED web-key1"}, ""},
		"freeze-all added secrets default/web-key #1": {informers,
			[]string{"1 POST: 201", "1 PATCH: 200", "1 PATCH: 200", "1 ADDED web-key1"}, ""},
		// the process never sees the states before the list
		"cut added secrets default/web-key #1": {informers, []string{"1 POST: 201", "1 PATCH: 200", "1 PATCH: 200"},
			"1 ADDED web-key1"},
	} {
		for _, name := range test.readers {
			t.Run(plan+"/"+name, func(t *testing.T) {
				w := &wire{reader: readers[name]}
				_, steps := replayed(t, w.scenario(explore.WatchListAuto), plan)
				if missing := inOrder(w.log, test.want); missing != "" ||
					test.never != "" && slices.Contains(w.log, test.never) || !strings.Contains(steps, "FAULT "+plan) {
					t.Errorf("missing %q, or has %q:\n%s\nsteps:\n%s", missing, test.never, strings.Join(w.log, "\n"),
						steps)
				}
				stale := strings.HasPrefix(plan, "kill-stale")
				if has := strings.Contains(strings.Join(w.log, "\n"), refused); has != (stale && name == "2026") {
					t.Errorf("watch lists are refused: %v\n%s", has, strings.Join(w.log, "\n"))
				}
			})
		}
	}
}

// A stale restart shows an older state to every read that may be old, and to no other.
func TestStaleReads(t *testing.T) {
	const plan = "kill-stale create secrets default/web-key #1"
	for name, test := range map[string]struct {
		mode  explore.WatchList
		want  []string
		never string
	}{
		"any watch":       {"", []string{"2 POST: 409", "2 ADDED web-key1"}, "2 list secrets"},
		"two pages":       {"", []string{"2 list secrets: []", "2 POST: 409"}, ""},
		"polling":         {"", []string{"2 list secrets: []", "2 POST: 409", "2 list secrets: [web-key1]"}, ""},
		"consistent":      {"", []string{"2 list secrets: [web-key1]", "2 PATCH: 200"}, "2 POST: 409"},
		"consistent 2026": {explore.WatchListServed, []string{"2 ADDED web-key1", "2 PATCH: 200"}, "2 POST: 409"},
		"2022":            {explore.WatchListServed, []string{"2 list secrets: []", "2 POST: 409"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{reader: readers[name]}
			_, steps := replayed(t, w.scenario(test.mode), plan)
			if missing := inOrder(w.log, test.want); missing != "" ||
				test.never != "" && slices.ContainsFunc(w.log, func(l string) bool {
					return strings.HasPrefix(l, test.never)
				}) {
				t.Errorf("missing %q, or has %q:\n%s\nsteps:\n%s", missing, test.never, strings.Join(w.log, "\n"),
					steps)
			}
		})
	}
}

// Plans with a stale restart that cannot show an older state to the operator are not counted, and
// the report says why they were not tried.
func TestStaleRestartsNotTried(t *testing.T) {
	for name, test := range map[string]struct {
		mode explore.WatchList
		want string
	}{
		"2022": {explore.WatchListServed, ""},
		"2026": {explore.WatchListAuto, ""},
		"consistent 2026": {explore.WatchListServed,
			"not tried: kill-stale (3 plans): the server serves watch lists, as the scenario requires, and the operator has no other read that may be old"},
		"consistent": {explore.WatchListAuto,
			"not tried: kill-stale (3 plans): all reads of the operator are consistent, so none may be old"},
	} {
		w := &wire{reader: readers[name]}
		report, err := explore.Explore(t, w.scenario(test.mode), explore.Options{For: time.Hour, OneFault: true,
			Kinds: []explore.Kind{explore.KillStale}})
		require.NoError(t, err)
		if summary := report.Summary(); !strings.Contains(summary, test.want) ||
			strings.Contains(summary, "kill-stale") != (test.want != "") {
			t.Errorf("%s: %s, want %q", name, summary, test.want)
		}
	}
}

// An operator that does not list again after its watches have ended misses what happened while the
// server restarted.
func TestServerRestart(t *testing.T) {
	const plan = "server-restart added configmaps default/web #1"
	for name, want := range map[string]string{"blind": "O1 secrets default/web-key: is missing", "2022": "", "2024": "",
		"2026": ""} {
		w := &wire{reader: readers[name]}
		if got, steps := replayed(t, w.scenario(explore.WatchListAuto), plan); got != want {
			t.Errorf("%s: %q, want %q\n%s\n%s", name, got, want, strings.Join(w.log, "\n"), steps)
		}
	}
}
