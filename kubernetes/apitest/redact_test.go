package apitest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"

	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/redact"
)

const secret = "hunter2-in-the-environment"

func podOfRedact() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Annotations: map[string]string{"a": secret}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "c", Env: []corev1.EnvVar{{Name: "E", Value: secret}}}}},
	}
}

// logged returns the log of a value: the line after the key.
func logged(t *testing.T, log func(*slog.Logger)) string {
	t.Helper()
	var out bytes.Buffer
	log(slog.New(redact.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.Level(-100)}))))
	_, line, ok := strings.Cut(strings.TrimSpace(out.String()), "msg=")
	if !ok {
		t.Fatalf("logged %q", &out)
	}
	return line
}

// Objects are logged by name; their contents are not logged, in any form.
func TestContentsAreNotLogged(t *testing.T) {
	p := podOfRedact()
	asJSON, _ := json.Marshal(p)
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web",
		field.ErrorList{field.Invalid(field.NewPath("spec", "x"), secret, "no")})
	for name, value := range map[string]any{
		"pointer":       p,
		"value":         *p,
		"spec":          p.Spec,
		"container":     &p.Spec.Containers[0],
		"container %v":  fmt.Sprintf("got %v", p.Spec.Containers[0]),
		"variables %+v": fmt.Sprintf("got %+v", p.Spec.Containers[0].Env),
		"list":          &corev1.PodList{Items: []corev1.Pod{*p}},
		"slice":         []*corev1.Pod{p},
		"any slice":     []any{p, p},
		"unstructured": &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "u"},
			"data": secret}},
		"map":           map[string]string{"k": secret},
		"tree":          map[string]any{"k": secret},
		"strings":       []string{secret},
		"bytes":         []byte(secret),
		"raw":           json.RawMessage(asJSON),
		"JSON":          string(asJSON),
		"JSON quoted":   fmt.Sprintf("body: %q", asJSON),
		"%v":            fmt.Sprintf("got %v", p),
		"%+v":           fmt.Sprintf("got %+v", *p),
		"%#v":           fmt.Sprintf("got %#v", p),
		"spec %v":       fmt.Sprintf("got %v", p.Spec),
		"spec %#v":      fmt.Sprintf("got %#v", &p.Spec),
		"map %v":        fmt.Sprint(map[string]string{"k": secret}),
		"YAML":          "apiVersion: v1\nmetadata:\n  name: " + secret,
		"diff":          "changed:\n-\tValue: \"" + secret + "\"",
		"error":         fmt.Errorf("expected a pod, got %#v", p),
		"invalid":       invalid,
		"wrapped":       fmt.Errorf("sync: %w", invalid),
		"joined":        errors.Join(invalid, errors.New("b")),
		"secret":        corev1.Secret{StringData: map[string]string{"p": secret}},
		"nil interface": nil,
		"nil pod":       (*corev1.Pod)(nil),
		"nil error":     (*apierrors.StatusError)(nil),
		"valuer":        valuer{p},
	} {
		for how, log := range map[string]func(*slog.Logger){
			"attribute": func(l *slog.Logger) { l.Debug("m", "k", value) },
			"group":     func(l *slog.Logger) { l.WithGroup("g").Info("m", slog.Group("h", "k", value)) },
			"with":      func(l *slog.Logger) { l.With("k", value).Error("m") },
			"logr":      func(l *slog.Logger) { logr.FromSlogHandler(l.Handler()).V(7).Info("m", "k", value) },
			"values":    func(l *slog.Logger) { logr.FromSlogHandler(l.Handler()).WithValues("k", value).Info("m") },
		} {
			if line := logged(t, log); strings.Contains(line, secret) {
				t.Errorf("%s as %s: %s", name, how, line)
			}
		}
		if s, ok := value.(string); ok {
			if line := logged(t, func(l *slog.Logger) { l.Info(s) }); strings.Contains(line, secret) {
				t.Errorf("%s as the message: %s", name, line)
			}
		}
	}
}

type valuer struct{ v any }

func (v valuer) LogValue() slog.Value { return slog.AnyValue(v.v) }

// Identifying values are logged unchanged.
func TestNamesAreLogged(t *testing.T) {
	p := podOfRedact()
	for want, value := range map[string]any{
		`"(*v1.Pod ns/web)"`: p,
		"ns/two":             types.NamespacedName{Namespace: "ns", Name: "two"},
		`"/v1, Kind=Pod"`:    schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
		"Running":            corev1.PodRunning,
		"3":                  int32(3),
		"true":               true,
		"1.5s":               1500 * time.Millisecond,
		`"dial tcp: no"`:     errors.New("dial tcp: no"),
		`"list pods: pods \"x\" is forbidden: User \"u\" cannot"`: errors.New(
			`list pods: pods "x" is forbidden: User "u" cannot`),
		`"[ns/web ns/web]"`:    klog.KObjSlice([]*corev1.Pod{p, p}),
		`"[a: no b: no]"`:      errors.Join(errors.New("a: no"), errors.New("b: no")),
		`"open: a: no: b: no"`: fmt.Errorf("open: %w: %w", errors.New("a: no"), errors.New("b: no")),
		`"([]string of 2)"`:    []string{"a", "b"},
		`"Pod \"web\" is invalid: spec.x: Invalid value: … (11 bytes not logged)"`: apierrors.NewInvalid(
			schema.GroupKind{Kind: "Pod"}, "web",
			field.ErrorList{field.Invalid(field.NewPath("spec", "x"), "abcd", "why")}),
	} {
		line := logged(t, func(l *slog.Logger) { l.Info("m", "k", value) })
		if line != "m k="+want {
			t.Errorf("logged %s, want k=%s", line, want)
		}
	}
	line := logged(t, func(l *slog.Logger) {
		l.Info("m", "k", klog.KObj(p))
	})
	assert.Equal(t, line, "m k.name=web k.namespace=ns")
	assert.Equal(t, logged(t, func(l *slog.Logger) { l.Info("m", "stack", "a\nb") }), `m stack="a\nb"`)
	if line := logged(t, func(l *slog.Logger) {
		l.Info(strings.Repeat("é", 1000))
	}); len(line) > 1100 || !strings.Contains(line, "not logged") {
		t.Error(line)
	}
}

func TestHandlerIsWrappedOnce(t *testing.T) {
	h := redact.New(slog.DiscardHandler)
	assert.Equalf(t, redact.New(h), h, "wrapped twice")
}
