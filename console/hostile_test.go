package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	"kelson.dev/console"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/history"
	"kelson.dev/lab/planned"
)

// hostile lists texts that would run code, load a resource or break out of their element if a page
// did not treat them as plain text.
var hostile = []string{
	`<script>hacked=1</script>`,
	`<img src=x onerror="hacked=2">`,
	`"><svg onload=hacked=3>`,
	`javascript:hacked=4`,
	`</pre></textarea><iframe srcdoc="<script>parent.hacked=5</script>">`,
	`<a href="javascript:hacked=6" autofocus onfocus=hacked=7 tabindex=1>x</a>`,
	`{{constructor.constructor('hacked=8')()}} ${hacked=9} <%= hacked=10 %>`,
	`<style>@import url(https://attacker.example/x)</style><link rel=stylesheet href=//attacker.example/y>`,
	"\x1b]8;;javascript:hacked=11\x07link\x1b]8;;\x07 \u202e\u2066 \u0000",
	`../../../attacker.example?#&=%2e%2e%2f`,
	`__proto__`,
	`data: {"event": "x"}` + "\n\nevent: state\ndata: {}\n\n",
}

// hostileCluster is an API server that an attacker controls or writes to: all its texts are
// hostile.
func hostileCluster(t *testing.T) *rest.Config {
	object := func(i int) map[string]any {
		s := hostile[i%len(hostile)]
		all := map[string]string{}
		for j, other := range hostile {
			all[other] = hostile[(j+1)%len(hostile)]
		}
		return map[string]any{
			"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{s: s,
				"containers": []any{map[string]any{"name": s, "image": s}}},
			"status": map[string]any{"phase": s,
				"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": s, "message": s,
					"lastTransitionTime": "2026-01-01T00:00:00Z"}},
				"containerStatuses": []any{map[string]any{"name": s,
					"state": map[string]any{"waiting": map[string]any{"reason": s, "message": s}}}}},
			"metadata": map[string]any{
				"name": s, "namespace": "default", "uid": fmt.Sprint("uid-", i), "resourceVersion": "5",
				"creationTimestamp": "2026-01-01T00:00:00Z", "labels": all, "annotations": all,
				"finalizers": hostile, "deletionTimestamp": "2026-01-02T00:00:00Z",
				"ownerReferences": []any{map[string]any{"kind": s, "name": s, "uid": fmt.Sprint("uid-", i+1)}},
				"managedFields": []any{map[string]any{"manager": s, "operation": s,
					"fieldsV1": map[string]any{"f:" + s: map[string]any{}, `k:{"name":"x"}`: map[string]any{}}}},
			},
		}
	}
	respond := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch p := r.URL.Path; {
		case p == "/version":
			respond(w, map[string]any{"gitVersion": hostile[0]})
		case p == "/api":
			respond(w, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
		case p == "/apis":
			respond(w, map[string]any{"kind": "APIGroupList", "groups": []any{}})
		case p == "/api/v1":
			resources := []any{}
			for _, name := range []string{"pods", "events", "namespaces"} {
				resources = append(resources, map[string]any{"name": name,
					"kind":       map[string]string{"pods": "Pod", "events": "Event", "namespaces": "Namespace"}[name],
					"namespaced": name != "namespaces", "verbs": []string{"list", "watch"}})
			}
			for _, s := range hostile {
				if !strings.Contains(s, "/") {
					resources = append(resources,
						map[string]any{"name": s, "kind": s, "shortNames": []string{s}, "namespaced": true,
							"verbs": []string{"list"}})
				}
			}
			respond(w, map[string]any{"kind": "APIResourceList", "groupVersion": "v1", "resources": resources})
		case p == "/openapi/v3/api/v1":
			properties := map[string]any{}
			for _, s := range hostile {
				properties[s] = map[string]any{"type": s, "description": s, "pattern": s, "default": s, "enum": hostile,
					"x-kubernetes-validations": []any{map[string]any{"rule": s, "message": s}}}
			}
			respond(w, map[string]any{"components": map[string]any{"schemas": map[string]any{"Pod": map[string]any{
				"x-kubernetes-group-version-kind": []any{map[string]any{"group": "", "version": "v1", "kind": "Pod"}},
				"description":                     hostile[1], "type": "object",
				"properties": map[string]any{"spec": map[string]any{"type": "object", "description": hostile[0],
					"properties": properties}},
			}}}})
		case q.Get("watch") == "true":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case strings.HasSuffix(p, "/log"):
			_, _ = w.Write([]byte(strings.Join(hostile, "\n")))
		case strings.HasSuffix(p, "/events"):
			var items []any
			for i, s := range hostile {
				items = append(items, map[string]any{
					"metadata": map[string]any{"name": fmt.Sprint("e", i), "uid": fmt.Sprint("e", i)},
					"type":     "Warning", "reason": s, "message": s, "source": map[string]any{"component": s},
					"lastTimestamp":  time.Now().UTC().Format(time.RFC3339),
					"involvedObject": map[string]any{"kind": "Pod", "namespace": "default", "name": s},
				})
			}
			respond(w, map[string]any{"kind": "EventList", "metadata": map[string]any{"resourceVersion": "5"},
				"items": items})
		case strings.Contains(r.Header.Get("Accept"), "as=Table"):
			var columns, rows []any
			for i, s := range hostile {
				columns = append(columns, map[string]any{"name": s, "type": "string", "description": s,
					"format": map[bool]string{true: "name"}[i == 0]})
				cells := []any{}
				for j := range hostile {
					cells = append(cells, hostile[(i+j)%len(hostile)])
				}
				rows = append(rows, map[string]any{"cells": cells,
					"object": map[string]any{"metadata": map[string]any{"name": s, "namespace": "default"}}})
			}
			respond(w, map[string]any{"kind": "Table", "metadata": map[string]any{"resourceVersion": "5"},
				"columnDefinitions": columns, "rows": rows})
		default:
			var items []any
			escaped, selected := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name=")
			name, err := fields.UnescapeValue(escaped)
			if err != nil {
				t.Errorf("field selector %q: %v", q.Get("fieldSelector"), err)
			}
			for i, s := range hostile {
				if !selected || name == s {
					items = append(items, object(i))
				}
			}
			if i := strings.LastIndex(p, "/pods/"); i >= 0 {
				for j, s := range hostile {
					if p[i+len("/pods/"):] == s {
						respond(w, object(j))
						return
					}
				}
			}
			respond(w, map[string]any{"kind": "PodList", "apiVersion": "v1",
				"metadata": map[string]any{"resourceVersion": "5"}, "items": items})
		}
	}))
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(func() { go server.Close() })
	return &rest.Config{Host: server.URL}
}

// hostileAudit is an audit log of hostile users and resources.
func hostileAudit(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "audit.log")
	for i, s := range hostile {
		appendAudit(t, name, s, s, s, hostile[(i+1)%len(hostile)], s)
	}
	return name
}

// hostileFailure is a failure whose every text is hostile.
func hostileFailure(t *testing.T) string {
	t.Helper()
	run := func(last string) map[string]any {
		objects := map[string]any{}
		for _, s := range hostile {
			objects[s] = []any{map[string]any{"spec": map[string]any{s: last + s}}}
		}
		return map[string]any{"steps": append([]string{last}, hostile...), "objects": objects}
	}
	text, err := json.Marshal(map[string]any{"oracle": hostile[0], "what": hostile[1], "detail": hostile[2],
		"plan": hostile[3], "passing": run("a"), "failing": run("b"),
		"curve": []any{map[string]any{"step": 1, "text": hostile[1], "failures": 1, "runs": 1}}})
	require.NoError(t, err)
	return writeFailure(t, string(text))
}

// hostilePlan is a plan whose every text is hostile.
func hostilePlan(t *testing.T) string {
	p := &planned.Plan{Cluster: hostile[0], Incomplete: hostile[1], Notes: hostile}
	for i, s := range hostile {
		ref := planned.Ref{Group: s, Kind: s, Resource: s, Namespace: s, Name: s}
		p.Installed = append(p.Installed, planned.Installed{Verb: s, Object: ref,
			Changes: []history.Change{{Path: s, From: s, To: s}}})
		p.Refused = append(p.Refused, planned.Refusal{Verb: s, Subresource: s, Object: ref, Message: s, Times: 2})
		p.Steps = append(p.Steps, planned.Step{Number: i + 1, Controller: s, Object: &ref,
			Because: []planned.Cause{{Text: s}}, Error: s, Simulated: s, Writes: []planned.Write{{
				Verb: s, Subresource: s, Object: ref, Changes: []history.Change{{Path: s, From: s, To: s}},
				Webhooks: []string{s}, Effects: []planned.Effect{{Verb: s, Object: ref}}}}})
	}
	return writePlan(t, p)
}

// hostileTrace is a trace whose every text is hostile.
func hostileTrace(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for i, s := range hostile {
		line, err := json.Marshal(map[string]any{
			"id": i + 1, "run": s, "time": time.Now().UTC().Format(time.RFC3339Nano), "controller": s, "kind": "Pod",
			"namespace": "default", "name": s, "duration": "1ms", "error": s,
			"causes": []any{map[string]any{"event": s, "kind": s, "namespace": s, "name": s, "manager": s,
				"fields": s}},
			"writes": []any{map[string]any{"verb": s, "subresource": s, "kind": "Pod", "namespace": "default",
				"name": s, "error": s, "changed": true}},
			"reads": []any{map[string]any{"verb": s, "kind": s, "namespace": s, "name": s, "selector": s,
				"resourceVersion": s, "at": "1ms", "duration": s, "error": s}},
			"logs":  []any{map[string]any{"at": s, "level": s, "message": s, "attributes": s}},
			"queue": map[string]any{"waited": s}, "retryAfter": s, "moreLogs": 1,
			"loop": map[string]any{"controllers": hostile, "objects": []string{"Pod default/" + s}, "fields": hostile,
				"managers": hostile},
		})
		require.NoError(t, err)
		b.Write(append(line, '\n'))
	}
	name := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, os.WriteFile(name, []byte(b.String()), 0o600))
	return name
}

// Texts from the cluster and from traces are shown as text, in every view. The test fails if a page
// tries to run a script, open a dialog or send a request to another host, even if the
// Content-Security-Policy prevents it.
func TestHostileTexts(t *testing.T) {
	chromium(t)
	b := open(t, start(t, console.Config{Cluster: hostileCluster(t), Name: hostile[0], Write: true,
		Failure: hostileFailure(t), Plan: hostilePlan(t), AuditLog: hostileAudit(t),
		Traces: []console.TraceSource{{Place: hostileTrace(t)}}}))
	check := func(path, shows string) {
		t.Helper()
		b.goTo(path)
		b.until(`document.querySelector('main').innerText.includes(` + quoted(shows) + `)`)
		found := eval[string](b, `[typeof hacked, ...[...document.querySelectorAll('script,iframe,img,style,link,object,embed,[onerror],[onload],[onfocus],a[href^="javascript"]')]
			.filter((e) => !e.closest('head')).map((e) => e.outerHTML)].join()`)
		assert.Equalf(t, found, "undefined", "%s", path)
		polluted := eval[string](b, `Object.keys(Object.prototype).join()`)
		assert.Equalf(t, polluted, "", "%s: all objects have the properties", path)
		if prefix := "/" + strings.SplitN(path, "/", 3)[1]; !strings.HasPrefix(eval[string](b, `location.pathname`),
			strings.SplitN(prefix, "?", 2)[0]) {
			t.Errorf("%s led to %s", path, eval[string](b, `location.href`))
		}
	}
	check("/", hostile[0])
	check("/why", hostile[1])
	check("/reconcile", hostile[1])
	check("/compare", hostile[0])
	check("/plan", hostile[2])
	check("/rights?user="+url.QueryEscape(hostile[1]), hostile[2])
	check("/compare?a="+url.QueryEscape(hostile[1])+"&b="+url.QueryEscape(hostile[0]), hostile[1])
	check("/timeline", "Timeline")
	check("/map?all=true", "Map")
	check("/objects/pods", hostile[2])
	for i, s := range hostile {
		if strings.Contains(s, "/") && i != 4 {
			continue // names are path segments for the server of the cluster
		}
		object := "/object/pods/default/" + url.PathEscape(s)
		check(object+"?tab=why", "Hot loop")
		check("/reconcile/"+url.PathEscape(s)+"/"+fmt.Sprint(i+1), "Causes")
		if i == 0 || i == 3 || i == 10 {
			check(object+"?tab=overview", "Conditions")
			check(object+"?tab=yaml", "managedFields")
			check(object+"?tab=yaml&field="+url.QueryEscape(`["spec"]`), hostile[2])
			check(object+"?tab=yaml&field="+url.QueryEscape(`["spec",`+quoted(hostile[2])+`]`), "default")
			check(object+"?tab=exec&container="+url.QueryEscape(s)+"&command="+url.QueryEscape(s), "Command")
			check(object+"?tab=events", hostile[1])
			check(object+"?tab=logs", hostile[1])
			check(object+"?tab=edit", "Save")
		}
	}
	b.goTo("/")
	b.press("/")
	b.press("hacked")
	b.until(`document.querySelectorAll('[role=option]').length > 3`)
	assert.Equalf(t, eval[string](b, `typeof hacked`), "undefined", "the search ran a script")
}
