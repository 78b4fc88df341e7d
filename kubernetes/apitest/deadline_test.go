package apitest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"kelson.dev/apiserver/rest"
	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/apitest"
)

// blockingPlugin is an admission plugin that blocks until letGo is closed. Like Kubernetes'
// libraries, it ignores its context.
type blockingPlugin struct{ letGo chan struct{} }

func (d *blockingPlugin) Handles(admission.Operation) bool { return true }

func (d *blockingPlugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	warning.AddWarning(ctx, "", "before")
	<-d.letGo
	warning.AddWarning(ctx, "", "after")
	return nil
}

const configMaps = "/api/v1/namespaces/default/configmaps"

func largeConfigMap(name string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"a":"` +
		strings.Repeat("x", 64<<10) + `"}}`
}

// A write whose deadline passes is answered with 504, although its computation can't be
// interrupted; the result of the computation is not stored.
func TestDeadlineDuringWork(t *testing.T) {
	merge, apply := "Content-Type: application/merge-patch+json", "Content-Type: application/apply-patch+yaml"
	for _, test := range []struct{ name, method, path, body, header string }{
		{"create", "POST", configMaps, largeConfigMap("new"), ""},
		{"update", "PUT", configMaps + "/old", largeConfigMap("old"), ""},
		{"patch of a large object", "PATCH", configMaps + "/large", `{"data":{"b":"c"}}`, merge},
		{"apply", "PATCH", configMaps + "/applied?fieldManager=me", largeConfigMap("applied"), apply},
		{"review", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"path":"` + strings.Repeat("x", 64<<10) + `"}}}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plugin := &blockingPlugin{letGo: make(chan struct{})}
				open := make(chan struct{})
				close(open)
				held := plugin.letGo
				plugin.letGo = open
				p := apitest.New(t, func(c *rest.Config) { c.Admission = plugin })
				p.Want(t, 201, "POST", configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"old"}}`)
				p.Want(t, 201, "POST", configMaps, largeConfigMap("large"))
				plugin.letGo = held
				before := p.Store.Snapshot().Revision()

				begun := time.Now()
				resp := p.Do(t, test.method, test.path, test.body, test.header)
				defer resp.Body.Close()
				if took := time.Since(begun); resp.StatusCode != http.StatusGatewayTimeout || took != time.Minute {
					t.Errorf("%s after %v, want 504 after a minute", resp.Status, took)
				}
				assert.Lenf(t, resp.Header["Warning"], 1, "warnings")
				close(held)
				synctest.Wait() // the work ends
				assert.Equalf(t, p.Store.Snapshot().Revision(), before, "the write was stored after its 504")
			})
		})
	}
}

// A write that has been stored when its deadline passes is not answered with 504.
func TestDeadlineAfterWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &blockingPlugin{letGo: make(chan struct{})}
		p := apitest.New(t, func(c *rest.Config) { c.Admission = plugin })
		go func() {
			time.Sleep(time.Minute - time.Nanosecond)
			close(plugin.letGo)
		}()
		p.Want(t, 201, "POST", configMaps, largeConfigMap("new"))
		p.Want(t, 200, "GET", configMaps+"/new", "")
	})
}

// A panic in a goroutine that works for a request is reported as the request's.
func TestPanicDuringWork(t *testing.T) {
	p := apitest.New(t, func(c *rest.Config) { c.Admission = panics{} })
	p.Want(t, 500, "POST", configMaps, largeConfigMap("new"))
}

type panics struct{}

func (panics) Handles(admission.Operation) bool { return true }

func (panics) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	panic("admission")
}
