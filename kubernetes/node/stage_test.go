package node_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kelson.dev/kubernetes/node/stage"
)

func object(t *testing.T, data string) *stage.Object {
	t.Helper()
	o, err := stage.NewObject([]byte(data), "v1", "Pod")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// parse returns the only Stage with a spec given as indented YAML.
func parse(t *testing.T, name, spec string) *stage.Program {
	t.Helper()
	stages, err := stage.Parse([]byte("apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: " + name +
		"}\nspec:\n  resourceRef: {kind: Pod}\n" + spec))
	if err != nil {
		t.Fatal(err)
	}
	p, err := stage.Compile(stages[0])
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const podOfStage = `{"metadata":{"name":"p","labels":{"app":"x"},"annotations":{"a":"any value at all","n":"3","at":"2006-01-02T15:04:15Z","for":"1m"},
	"creationTimestamp":"2006-01-02T15:04:05Z","finalizers":["a/1","b/2"]},
	"status":{"phase":"Running","containerStatuses":[{"restartCount":3,"ready":true}]}}`

func TestSelectors(t *testing.T) {
	for selector, want := range map[string]bool{
		"{}":                      true,
		"{matchLabels: {app: x}}": true,
		"{matchLabels: {app: y}}": false,
		"{matchAnnotations: {a: any value at all}}":                                                         true,
		"{matchAnnotations: {a: another}}":                                                                  false,
		"{matchExpressions: [{key: .status.phase, operator: In, values: [Running]}]}":                       true,
		"{matchExpressions: [{key: .status.phase, operator: NotIn, values: [Running]}]}":                    false,
		"{matchExpressions: [{jq: {key: .status.phase, operator: Exists}}]}":                                true,
		"{matchExpressions: [{key: .status.reason, operator: Exists}]}":                                     false,
		"{matchExpressions: [{key: .status.reason, operator: DoesNotExist}]}":                               true,
		"{matchExpressions: [{key: '.status.containerStatuses.[].ready', operator: In, values: ['true']}]}": true,
		// an expression that fails has no results
		"{matchExpressions: [{key: '.status.conditions.[] | .type', operator: Exists}]}":                           false,
		"{matchExpressions: [{key: '.status.conditions.[] | .type', operator: NotIn, values: [Ready]}]}":           true,
		"{matchExpressions: [{key: '.status.containerStatuses.[0].restartCount', operator: In, values: ['3']}]}":   true,
		`{matchExpressions: [{cel: {expression: "self.status.phase == 'Running' && has(self.metadata.labels)"}}]}`: true,
		`{matchExpressions: [{cel: {expression: "self.status.reason == 'x'"}}]}`:                                   false,
		`{matchExpressions: [{cel: {expression: "SinceSecond(self) > 1.0 && self.SinceSecond() > 1.0"}}]}`:         true,
		`{matchExpressions: [{cel: {expression: "Now() - self.metadata.creationTimestamp > duration('1h')"}}]}`:    true,
		`{matchExpressions: [{cel: {expression: "Rand() < 0.0 || UnixSecond(Now()) < 0.0"}}]}`:                     false,
	} {
		if got := parse(t, "s", "  selector: "+selector).Matches(t.Context(), object(t, podOfStage)); got != want {
			t.Errorf("%s: %v, want %v", selector, got, want)
		}
	}
	if parse(t, "s", "  weight: 1").Matches(t.Context(), object(t, podOfStage)) {
		t.Error("a Stage without a selector matches")
	}
}

func TestDelays(t *testing.T) {
	now := time.Date(2006, 1, 2, 15, 4, 5, 0, time.UTC)
	for delay, want := range map[string][2]time.Duration{
		"{durationMilliseconds: 5}": {
			5 * time.Millisecond, 5 * time.Millisecond},
		"{durationMilliseconds: 5, jitterDurationMilliseconds: 9}": {
			5 * time.Millisecond, 9 * time.Millisecond},
		"{durationMilliseconds: 5, jitterDurationMilliseconds: 3}": {
			3 * time.Millisecond, 3 * time.Millisecond},
		"{durationMilliseconds: 5, durationFrom: {expressionFrom: '.metadata.annotations.for'}}": {time.Minute,
			time.Minute},
		"{durationFrom: {jq: {expression: '.metadata.annotations.at'}}}": {
			10 * time.Second, 10 * time.Second},
		"{durationMilliseconds: 5, durationFrom: {expressionFrom: '.metadata.annotations.none'}}": {
			5 * time.Millisecond, 5 * time.Millisecond},
		"{durationMilliseconds: 5, durationFrom: {expressionFrom: '.metadata.annotations.a'}}": {
			5 * time.Millisecond, 5 * time.Millisecond},
		"{durationFrom: {cel: {expression: \"duration('7s')\"}}}": {7 * time.Second,
			7 * time.Second},
		"{durationMilliseconds: 5, jitterDurationFrom: {expressionFrom: '.metadata.annotations.at'}}": {
			5 * time.Millisecond, 10 * time.Second},
	} {
		p := parse(t, "s", "  delay: "+delay)
		shortest, longest, ok := p.DelayRange(t.Context(), object(t, podOfStage), now)
		if !ok || shortest != want[0] || longest != want[1] {
			t.Errorf("%s: %v to %v, want %v", delay, shortest, longest, want)
		}
		got := p.Delay(t.Context(), object(t, podOfStage), now, func(n int64) int64 { return n - 1 })
		if got < want[0] || got > want[1] {
			t.Errorf("%s: chose %v", delay, got)
		}
	}
}

// Stages are chosen by weight. If the object removes the weight of a Stage, one of the others is
// chosen.
func TestWeights(t *testing.T) {
	lifecycle := func(specs ...string) (l stage.Lifecycle) {
		for i, spec := range specs {
			l = append(l, parse(t, string(rune('a'+i)), "  selector: {}\n"+spec))
		}
		return l
	}
	choices := func(l stage.Lifecycle, total int64) (names string) {
		for at := range total {
			names += l.Choose(t.Context(), object(t, podOfStage), func(n int64) int64 {
				if n != total {
					t.Errorf("random number below %d, want %d", n, total)
				}
				return at
			}).Name
		}
		return names
	}
	if got := choices(lifecycle("  weight: 1", "  weight: 0",
		"  weightFrom: {expressionFrom: '.metadata.annotations.n'}"), 4); got != "accc" {
		t.Errorf("by weight: %s", got)
	}
	if got := choices(lifecycle("", ""), 2); got != "ab" {
		t.Errorf("without weights: %s", got)
	}
	l := lifecycle("  weightFrom: {expressionFrom: '.metadata.annotations.a'}", "")
	if got := l.Choose(t.Context(), object(t, podOfStage), nil); got.Name != "b" {
		t.Errorf("chose %s", got.Name)
	}
	if got := (stage.Lifecycle{}).Choose(t.Context(), object(t, podOfStage), nil); got != nil {
		t.Errorf("chose %s", got.Name)
	}
}

func TestActions(t *testing.T) {
	for _, test := range []struct{ name, spec, want string }{
		{"finalizers", "  next: {finalizers: {remove: [{value: a/1}], add: [{value: c/3}, {value: b/2}]}}",
			`[{"op":"remove","path":"/metadata/finalizers/0"},{"op":"add","path":"/metadata/finalizers/-","value":"c/3"}]`},
		{"no finalizers", "  next: {finalizers: {empty: true}}", `[{"op":"remove","path":"/metadata/finalizers"}]`},
		{"other finalizers", "  next: {finalizers: {empty: true, add: [{value: x/1}]}}",
			`[{"op":"remove","path":"/metadata/finalizers"},{"op":"add","path":"/metadata/finalizers","value":["x/1"]}]`},
		{"all finalizers", "  next: {finalizers: {remove: [{value: a/1}, {value: b/2}]}}",
			`[{"op":"remove","path":"/metadata/finalizers"}]`},
		{"unknown finalizers", "  next: {finalizers: {remove: [{value: z/1}]}}", ``},
		{"JSON patch", `  steps: [{patch: {root: metadata, type: json, template: '[{"op": "add", "path": "/labels/y", "value": {{ .metadata.name | Quote }}}]'}}]`,
			`[{"op":"add","path":"/metadata/labels/y","value":"p"}]`},
		{"integers stay integers", "  next: {statusTemplate: '{{ range .status.containerStatuses }}count: {{ add .restartCount 1 }}{{ end }}'}", `{"status":{"count":4}}`},
		{"YAML", "  steps: [{patch: {root: spec, template: \"labels: {{ YAML .metadata.labels 1 }}\"}}]",
			`{"spec":{"labels":{"app":"x"}}}`},
		{"sprig", "  steps: [{patch: {template: 'x: {{ list 1 2 | toJson }}'}}]", `{"x":[1,2]}`},
	} {
		actions, err := parse(t, "s", test.spec).Actions(object(t, podOfStage), nil)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		got := ""
		for _, a := range actions {
			got += string(a.Data)
		}
		if !sameJSON(got, test.want) {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func sameJSON(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

// The error of an invalid Stage is one line with the cause.
func TestBadStages(t *testing.T) {
	head := "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: bad}\nspec:\n  resourceRef: {kind: Pod}\n"
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: Pod\n": "v1 Pod: want Stages of kwok.x-k8s.io/v1alpha1",
		"apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nspec: {resourceRef: {kind: Pod}}": "a Stage has no name",
		"apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: bad}\nspec: {}":  "spec.resourceRef.kind is missing",
		head + "  selectors: {}": `unknown field "selectors"`,
		head + "  selector: {matchExpressions: [{key: '.status[', operator: Exists}]}":      `stage "bad": spec.selector: jq ".status["`,
		head + "  selector: {matchExpressions: [{key: '.status', operator: Equals}]}":       `operator "Equals": must be In, NotIn, Exists or DoesNotExist`,
		head + "  selector: {matchExpressions: [{key: '.status', operator: In}]}":           "operator In needs values",
		head + "  selector: {matchExpressions: [{key: .x, operator: Exists, values: [x]}]}": "operator Exists has no values",
		head + "  selector: {matchExpressions: [{}]}":                                       "needs jq, cel or key",
		head + "  selector: {matchExpressions: [{cel: {expression: 'self.'}}]}":             `cel "self."`,
		head + "  selector: {matchExpressions: [{cel: {expression: ''}}]}":                  "cel",
		head + "  selector: {matchLabels: {'a b': c}}":                                      `"a b"`,
		head + "  delay: {durationMilliseconds: -1}":                                        "must not be negative",
		head + "  delay: {durationFrom: {}}":                                                "needs cel, jq or expressionFrom",
		head + "  weight: -1":                                                               "must not be negative",
		head + "  weightFrom: {jq: {expression: '('}}":                                      "spec.weightFrom",
		head + "  next: {statusTemplate: '{{ nothing }}'}":                                  `function "nothing" not defined`,
		head + "  next: {statusTemplate: '{{ env \"HOME\" }}'}":                             `function "env" not defined`,
		head + "  steps: [{patch: {type: strange}}]":                                        `patch type "strange"`,
		head + "  steps: [{apply: {type: json}}]":                                           `apply type "json"`,
		head + "  next: {event: {type: Loud}}":                                              `event type "Loud"`,
		"\t":                                                                                "yaml",
	} {
		_, err := stage.Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want one line with %q", text, err, want)
		}
	}
	folder := t.TempDir()
	if _, err := stage.Load(folder); err == nil || !strings.Contains(err.Error(), "contains no Stage") {
		t.Errorf("an empty folder: %v", err)
	}
	file := filepath.Join(folder, "a.yaml")
	if err := os.WriteFile(file, []byte(head+"  nexts: {}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := stage.Load(folder); err == nil || !strings.HasPrefix(err.Error(), file+": ") {
		t.Errorf("a bad file: %v", err)
	}
}

// A query that never ends does not block.
func TestEndlessQuery(t *testing.T) {
	p := parse(t, "s", "  selector: {matchExpressions: [{key: 'def f: f; f', operator: Exists}]}")
	began := time.Now()
	if p.Matches(t.Context(), object(t, podOfStage)) || time.Since(began) > time.Minute {
		t.Errorf("after %v", time.Since(began))
	}
}
