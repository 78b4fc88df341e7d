package client_test

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
)

type knows struct{ client.Known }

// everyOption has every field of every options struct set. TestOptionsMerge fails until a new field
// is added here.
func everyOption() (client.GetOptions, client.ListOptions, client.WriteOptions, client.DeleteOptions,
	client.DeleteAllOfOptions) {
	var shared client.Object = &corev1.Pod{}
	yes, seconds, background := true, int64(7), metav1.DeletePropagationBackground
	uid, version := types.UID("u"), "7"
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	list := client.ListOptions{
		Namespace: "a", Labels: labels.SelectorFromSet(labels.Set{"a": "b"}),
		Fields:  fields.OneTermEqualSelector("a", "b"),
		Indexes: []client.IndexValue{{Name: "i", Value: "v"}}, Limit: 5, Continue: "c",
		ResourceVersion: "7", ResourceVersionMatch: metav1.ResourceVersionMatchExact, Live: true, Shared: true,
		Ahead: &client.Ahead{}, Known: knows{}, Kind: kind,
		Bookmarks: true, InitialEvents: true, Timeout: time.Second,
	}
	del := client.DeleteOptions{
		DryRun: true, GracePeriodSeconds: &seconds,
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}, PropagationPolicy: &background,
		Answer: &corev1.Pod{}, Status: &metav1.Status{},
	}
	return client.GetOptions{Live: true, ResourceVersion: "7", Kind: kind, Shared: &shared}, list,
		client.WriteOptions{DryRun: true, FieldOwner: "me", Force: &yes, FieldValidation: "Strict", Given: true,
			New: true, Answer: &corev1.Pod{}}, del,
		client.DeleteAllOfOptions{ListOptions: list, DeleteOptions: del, Answers: &corev1.PodList{}}
}

// Options add up in any order: an option that sets one field preserves the fields that others set.
func TestOptionsMerge(t *testing.T) {
	get, list, write, del, all := everyOption()
	merges(t, get, func(o ...client.GetOptions) client.GetOptions {
		return client.NewGetOptions(asOptions[client.GetOption](o)...)
	})
	merges(t, list, func(o ...client.ListOptions) client.ListOptions {
		return client.NewListOptions(asOptions[client.ListOption](o)...)
	})
	merges(t, write, func(o ...client.WriteOptions) client.WriteOptions {
		return client.NewWriteOptions(asOptions[client.WriteOption](o)...)
	})
	merges(t, del, func(o ...client.DeleteOptions) client.DeleteOptions {
		return client.NewDeleteOptions(asOptions[client.DeleteOption](o)...)
	})
	merges(t, all, func(o ...client.DeleteAllOfOptions) client.DeleteAllOfOptions {
		return client.NewDeleteAllOfOptions(asOptions[client.DeleteAllOfOption](o)...)
	})
}

func asOptions[I, O any](opts []O) []I {
	all := make([]I, len(opts))
	for i, o := range opts {
		all[i] = any(o).(I)
	}
	return all
}

// merges splits full into one struct per field, and merges them.
func merges[O any](t *testing.T, full O, add func(...O) O) {
	t.Helper()
	var parts []O
	split(t, reflect.ValueOf(full), nil, func(index []int, value reflect.Value) {
		var one O
		reflect.ValueOf(&one).Elem().FieldByIndex(index).Set(value)
		parts = append(parts, one)
	})
	var none O
	for name, got := range map[string]O{
		"in order": add(parts...), "backwards": add(backwards(parts)...), "with none": add(full, none),
		"after none": add(none, full),
	} {
		if !reflect.DeepEqual(got, full) {
			t.Errorf("%T %s:\n%+v, want\n%+v", full, name, got, full)
		}
	}
}

func split(t *testing.T, v reflect.Value, index []int, yield func([]int, reflect.Value)) {
	t.Helper()
	for n := range v.NumField() {
		at := append(slices.Clone(index), n)
		switch f := v.Type().Field(n); {
		case f.Anonymous:
			split(t, v.Field(n), at, yield)
		case v.Field(n).IsZero():
			t.Errorf("%s.%s is not set by this test", v.Type(), f.Name)
		default:
			yield(at, v.Field(n))
		}
	}
}

// An options struct among other options never extends the selection.
func TestSelectorsAddUp(t *testing.T) {
	must1 := func(s string) labels.Selector {
		selector, err := labels.Parse(s)
		must(t, err)
		return selector
	}
	for name, tt := range map[string]struct {
		opts                      []client.ListOption
		namespace, labels, fields string
	}{
		"a namespace, then a limit": {[]client.ListOption{client.InNamespace("a"), client.ListOptions{Limit: 5}}, "a",
			"", ""},
		"a limit, then a namespace": {[]client.ListOption{client.ListOptions{Limit: 5}, client.InNamespace("a")}, "a",
			"", ""},
		"another namespace": {[]client.ListOption{client.InNamespace("a"), client.ListOptions{Namespace: "b"}},
			"b", "", ""},
		"labels, then labels": {[]client.ListOption{client.MatchingLabels{"a": "b"},
			client.ListOptions{Labels: must1("c")}}, "", "a=b,c", ""},
		"labels of structs": {[]client.ListOption{client.ListOptions{Labels: must1("c")},
			client.ListOptions{Labels: must1("!d")}}, "", "c,!d", ""},
		"no labels": {[]client.ListOption{client.MatchingLabels{"a": "b"}, client.MatchingSelector{}},
			"", "a=b", ""},
		"all labels": {[]client.ListOption{client.MatchingLabels{"a": "b"},
			client.ListOptions{Labels: labels.Everything()}}, "", "a=b", ""},
		"fields, then fields": {[]client.ListOption{client.MatchingFields{"a": "b"},
			client.ListOptions{Fields: fields.OneTermNotEqualSelector("c", "d")}}, "", "", "a=b,c!=d"},
		"fields, then all": {[]client.ListOption{client.MatchingFields{"a": "b"},
			client.ListOptions{Fields: fields.Everything()}}, "", "", "a=b"},
		"labels and fields together": {[]client.ListOption{client.ListOptions{Labels: must1("a"),
			Fields: fields.OneTermEqualSelector("c", "d")}, client.ListOptions{Limit: 1}}, "", "a", "c=d"},
	} {
		t.Run(name, func(t *testing.T) {
			o := client.NewListOptions(tt.opts...)
			gotLabels, gotFields := "", ""
			if o.Labels != nil {
				gotLabels = o.Labels.String()
			}
			if o.Fields != nil {
				gotFields = o.Fields.String()
			}
			if o.Namespace != tt.namespace || gotLabels != tt.labels || gotFields != tt.fields {
				t.Errorf("%q %q %q", o.Namespace, gotLabels, gotFields)
			}
		})
	}
}

// A selector that selects nothing is encoded as one that selects nothing, not as an empty one,
// which selects everything.
func TestEmptySelectionStaysEmpty(t *testing.T) {
	server := apitest.New()
	var queries []url.Values
	cfg := server.REST()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/configmaps") {
				queries = append(queries, r.URL.Query())
			}
			return next.RoundTrip(r)
		})
	})
	c, err := client.New(client.Config{REST: rest.CopyConfig(cfg)})
	must(t, err)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a",
		Labels: map[string]string{"a": "b"}}}
	must(t, c.Create(t.Context(), cm))
	for name, opts := range map[string]client.ListOptions{
		"labels": {Labels: labels.Nothing()},
		"labels, then more": client.NewListOptions(client.MatchingSelector{Selector: labels.Nothing()},
			client.MatchingLabels{"a": "b"}),
		"more, then labels": client.NewListOptions(client.MatchingLabels{"a": "b"},
			client.MatchingSelector{Selector: labels.Nothing()}),
		"fields": {Fields: fields.Nothing()},
		"fields, then more": client.NewListOptions(client.ListOptions{Fields: fields.Nothing()},
			client.MatchingFields{"metadata.name": "a"}),
		"more, then fields": client.NewListOptions(client.MatchingFields{"metadata.name": "a"},
			client.ListOptions{Fields: fields.Nothing()}),
	} {
		t.Run(name, func(t *testing.T) {
			queries = nil
			_, err := client.List[corev1.ConfigMap](t.Context(), c, client.InNamespace("default"), opts)
			must(t, err)
			must(t, c.DeleteAllOf(t.Context(), cm, client.InNamespace("default"),
				client.DeleteAllOfOptions{ListOptions: opts}))
			for _, q := range queries {
				l, err := labels.Parse(q.Get("labelSelector"))
				must(t, err)
				f, err := fields.ParseSelector(q.Get("fieldSelector"))
				must(t, err)
				if l.Matches(labels.Set{"a": "b"}) &&
					f.Matches(fields.Set{"metadata.name": "a", "metadata.namespace": "default"}) {
					t.Errorf("%v selects the object", q)
				}
			}
			assert.Equalf(t, len(queries), 2, "requests")
		})
	}
}

// An options struct does not remove a selector from a DeleteAllOf.
func TestDeleteAllOfKeepsItsSelector(t *testing.T) {
	server := apitest.New()
	c, err := client.New(client.Config{REST: server.REST()})
	must(t, err)
	for _, name := range []string{"kept", "deleted"} {
		must(t, c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			Labels: map[string]string{"for": name}}}))
	}
	grace := int64(0)
	must(t, c.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace("default"),
		client.MatchingLabels{"for": "deleted"},
		client.DeleteAllOfOptions{DeleteOptions: client.DeleteOptions{GracePeriodSeconds: &grace}}))
	left, err := client.List[corev1.ConfigMap](t.Context(), c, client.InNamespace("default"))
	must(t, err)
	if len(left) != 1 || left[0].Name != "kept" {
		t.Errorf("%d are left", len(left))
	}
}

func backwards[E any](s []E) []E {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}
