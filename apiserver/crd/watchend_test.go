package crd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/internal/require"
)

// watching is a watch whose events a test collects.
type watching struct {
	mu     sync.Mutex
	events []string // type and name
	ended  bool
}

func (w *watching) state() ([]string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events), w.ended
}

// watch follows a collection until the watch or the test ends.
func (p *plane) watch(path string) *watching {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://plane"+path+"?watch=1", nil)
	require.NoError(p.t, err)
	resp, err := (&inprocess.Transport{Handler: p.handler}).RoundTrip(req)
	require.NoError(p.t, err)
	require.Equalf(p.t, resp.StatusCode, http.StatusOK, "watch %s: %s", path, resp.Status)
	w := &watching{}
	go func() {
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			var event struct {
				Type   string
				Object struct{ Metadata struct{ Name string } }
			}
			if err := json.Unmarshal(lines.Bytes(), &event); err != nil && p.t.Context().Err() == nil {
				p.t.Errorf("%s: %v", lines.Text(), err)
			}
			w.mu.Lock()
			w.events = append(w.events, event.Type+" "+event.Object.Metadata.Name)
			w.mu.Unlock()
		}
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
	}()
	return w
}

// A watch ends when its definition is deleted, after the events of the deleted objects, and when
// its definition says something else about the kind. Its client then reads how the kind is served
// now. Other changes of the definition do not end it.
func TestWatchesEndWithTheirDefinition(t *testing.T) {
	const definition = definitionsPath + "/widgets.example.com"
	v1, beta := `{"name":"v1","served":true,"storage":true,`,
		`{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},`
	put := func(p *plane, mods ...string) {
		p.t.Helper()
		mods = append(mods,
			`"name":"widgets.example.com"`, `"name":"widgets.example.com","resourceVersion":"`+p.revision(definition)+
				`"`,
			v1, beta+v1)
		p.do("PUT", definition, widgets(mods...)).want(http.StatusOK)
	}
	for _, test := range []struct {
		name   string
		change func(*plane)
		events []string
		ends   bool
	}{
		{"deletion", func(p *plane) {
			p.do("DELETE", definition, "").want(http.StatusOK)
		}, []string{"ADDED a", "DELETED a"}, true},
		{"schema", func(p *plane) { put(p, `"maximum":10`, `"maximum":11`) }, []string{"ADDED a"}, true},
		{"version not served", func(p *plane) {
			put(p, v1, strings.Replace(beta, `"served":true`, `"served":false`, 1)+v1)
		}, []string{"ADDED a"}, true},
		{"short names", func(p *plane) {
			put(p, `"shortNames":["wd"]`, `"shortNames":["wi"]`)
		}, []string{"ADDED a"}, true},
		{"labels", func(p *plane) {
			p.do("PATCH", definition, `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type",
				"application/merge-patch+json").want(http.StatusOK)
		}, []string{"ADDED a"}, false},
		{"another definition", func(p *plane) {
			p.do("POST", definitionsPath, widgets("widgets", "gadgets", "widget", "gadget", "Widget", "Gadget", "wd",
				"gd")).want(http.StatusCreated)
		}, []string{"ADDED a"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane(t)
				ctx, cancel := context.WithCancel(t.Context())
				running := make(chan error, 1)
				go func() { running <- p.definitions.Run(ctx) }()
				defer func() { cancel(); <-running }()
				p.do("POST", definitionsPath, widgets(v1, beta+v1)).want(http.StatusCreated)
				p.do("POST", widgetsPath, widget("a", `{"color":"green"}`)).want(http.StatusCreated)
				watches := []*watching{p.watch(widgetsPath), p.watch("/apis/example.com/v1beta1/widgets")}
				synctest.Wait()
				test.change(p)
				synctest.Wait()
				for i, w := range watches {
					events, ended := w.state()
					if !slices.Equal(events, test.events) || ended != test.ends {
						t.Errorf("watch %d: events %q, ended: %v", i, events, ended)
					}
				}
			})
		})
	}
}
