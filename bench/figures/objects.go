package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	jsonMedia  = "application/json"
	mergeMedia = "application/merge-patch+json"
	applyMedia = "application/apply-patch+yaml"

	configMaps = "/api/v1/namespaces/figures/configmaps"
	widgets    = "/apis/figures.kelson.dev/v1/namespaces/figures/widgets"
)

// definition is the custom kind: a typical structural schema, with a status.
const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.figures.kelson.dev"},
"spec":{"group":"figures.kelson.dev","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","required":["count"],"properties":{
 "count":{"type":"integer","minimum":0},"owner":{"type":"string","maxLength":63},"paused":{"type":"boolean"},"note":{"type":"string"},
 "labels":{"type":"object","additionalProperties":{"type":"string"}},
 "steps":{"type":"array","items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"image":{"type":"string"},
  "replicas":{"type":"integer","default":1},"args":{"type":"array","items":{"type":"string"}}}}}}},
"status":{"type":"object","properties":{"observed":{"type":"integer"},"phase":{"type":"string"},
 "conditions":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["type"],"items":{"type":"object","required":["type","status"],
  "properties":{"type":{"type":"string"},"status":{"type":"string"},"reason":{"type":"string"},"message":{"type":"string"}}}}}}}}}}]}}`

// spec is the spec of all widgets, except for its number; it makes the body of a widget a kilobyte.
var spec = fmt.Sprintf(`"owner":"team-a","paused":false,"labels":{"tier":"backend","region":"north","stage":"canary"},"steps":[`+
	`{"name":"fetch","image":"registry.example.com/fetch:v1.2.3","replicas":2,"args":["--from","https://example.com/data","--retries","3"]},`+
	`{"name":"build","image":"registry.example.com/build:v1.2.3","replicas":1,"args":["--target","release","--jobs","8"]},`+
	`{"name":"store","image":"registry.example.com/store:v1.2.3","replicas":3,"args":["--bucket","results","--class","cold"]}],"note":"%s"`,
	strings.Repeat("n", 308))

const status = `"phase":"Ready","conditions":[{"type":"Ready","status":"True","reason":"AllStepsDone","message":"all three steps have run"}]`

var payload = strings.Repeat("x", 900)

func configMapBody(buf []byte, name string) []byte {
	return fmt.Appendf(buf[:0], `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s","namespace":"figures"},"data":{"k":"%s"}}`, name, payload)
}

func widgetBody(buf []byte, name string, count int) []byte {
	return fmt.Appendf(buf[:0], `{"apiVersion":"figures.kelson.dev/v1","kind":"Widget","metadata":{"name":"%s","namespace":"figures"},"spec":{"count":%d,%s}}`,
		name, count, spec)
}

func statusBody(buf []byte, w *widget) []byte {
	return fmt.Appendf(buf[:0], `{"apiVersion":"figures.kelson.dev/v1","kind":"Widget","metadata":{"name":"%s","namespace":"figures","resourceVersion":"%s"},`+
		`"spec":{"count":0,%s},"status":{"observed":%d,%s}}`, w.name, w.revision, spec, w.count, status)
}

func patchBody(buf []byte, w *widget) []byte {
	return fmt.Appendf(buf[:0], `{"spec":{"count":%d}}`, w.count)
}

// widget is a stored widget. Only one client at a time uses it, so the client has its newest state.
type widget struct {
	name     string
	path     string
	revision string
	count    int // number of updates
}

// life is a running server and the objects created in it.
type life struct {
	*options
	*server
	column  int
	results *results

	mu       sync.Mutex
	names    int // number of assigned names
	widgets  []*widget
	stock    int // number of stored objects of each kind
	prepared bool
}

// prepare creates the namespace and the custom kind, once.
func (l *life) prepare(ctx context.Context) error {
	if l.prepared {
		return nil
	}
	l.prepared = true
	c := l.client(l.http2)
	defer c.transport.CloseIdleConnections()
	namespace := []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"figures"}}`)
	if err := c.do(ctx, http.MethodPost, "/api/v1/namespaces", jsonMedia, namespace); err != nil {
		return err
	}
	if err := c.do(ctx, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", jsonMedia,
		[]byte(definition)); err != nil {
		return err
	}
	for range l.urls {
		if err := l.served(ctx); err != nil {
			return err
		}
	}
	return nil
}

// served waits until the next server has the new kind. The peer serves it some time after it
// reports the kind as established.
func (l *life) served(ctx context.Context) error {
	c := l.client(l.http2)
	defer c.transport.CloseIdleConnections()
	until := time.Now().Add(30 * time.Second)
	for served := 0; served < 5; {
		err := c.do(ctx, http.MethodGet, widgets, "", nil)
		if err == nil {
			served++
		} else if time.Now().After(until) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// name returns a new name: c-0000001 and so forth for the fill's ConfigMaps; its widgets continue
// the count.
func (l *life) name(prefix string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names++
	return fmt.Sprintf("%s-%07d", prefix, l.names)
}

func (l *life) createConfigMap(ctx context.Context, c *client, buf []byte) error {
	return c.do(ctx, http.MethodPost, configMaps, jsonMedia, configMapBody(buf, l.name("c")))
}

func (l *life) createWidget(ctx context.Context, c *client, buf []byte) error {
	w := &widget{name: l.name("w")}
	if err := c.do(ctx, http.MethodPost, widgets, jsonMedia, widgetBody(buf, w.name, 0)); err != nil {
		return err
	}
	w.path = widgets + "/" + w.name
	w.revision = string(field(c.answer, "resourceVersion"))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.widgets = append(l.widgets, w)
	return nil
}
