package history_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/history"
)

// The recorder continues in another version if a definition gets one, and stops without errors if
// the definition is deleted.
func TestRecorderFollowsDefinitions(t *testing.T) {
	var file bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(store.Config{})
		must(t, err)
		plane, err := controlplane.Start(t.Context(), controlplane.Config{Store: s})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		w, err := history.NewWriter(&file)
		must(t, err)
		problems := make(chan error, 1000)
		ended := make(chan error)
		go func() {
			ended <- (&history.Recorder{Config: plane.RESTConfig(), To: w, Log: func(err error) {
				problems <- err
			}}).Run(ctx)
		}()
		client, err := dynamic.NewForConfig(plane.RESTConfig())
		must(t, err)
		definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
			Resource: "customresourcedefinitions"})
		for _, version := range []string{"v1alpha1", "v1"} {
			_, err := definitions.Create(ctx, decoded(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},"spec":{
				"group":"example.com","scope":"Cluster","names":{"plural":"foos","kind":"Foo"},
				"versions":[{"name":"`+version+`","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`), metav1.CreateOptions{})
			must(t, err)
			time.Sleep(time.Minute)
			foos := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: version,
				Resource: "foos"})
			_, err = foos.Create(ctx, decoded(`{"apiVersion":"example.com/`+version+
				`","kind":"Foo","metadata":{"name":"`+version+`"}}`), metav1.CreateOptions{})
			must(t, err)
			must(t, definitions.Delete(ctx, "foos.example.com", metav1.DeleteOptions{}))
			time.Sleep(time.Second) // less than until the next discovery
			if version == "v1" {
				time.Sleep(time.Hour)
			}
		}
		cancel()
		must(t, <-ended)
		if n := len(problems); n > 50 {
			t.Errorf("%d errors, such as %v", n, <-problems)
		}
		plane.Stop()
		must(t, s.Close())
	})
	var got []string
	h := read(t, file.Bytes())
	for _, key := range h.Keys("foos.example.com") {
		for v := range h.Versions(key) {
			got = append(got, fmt.Sprint(key.Name, v.Deleted))
		}
	}
	assert.Slicef(t, got, []string{"v1false", "v1true", "v1alpha1false", "v1alpha1true"}, "recorded")
}

func decoded(text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(text)); err != nil {
		panic(err)
	}
	return o
}
