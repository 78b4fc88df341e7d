package apitest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/filters"
	"kelson.dev/kubernetes/apitest"
)

// serve calls the pipeline directly, without an HTTP client.
func serve(b *testing.B, p *apitest.Plane, method, path, body string, header ...string) int {
	ctx := filters.WithUser(context.Background(),
		&user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}})
	req := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, req)
	if w.Code >= http.StatusBadRequest {
		b.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.Len()
}

const benchPods = "/api/v1/namespaces/default/pods"

func BenchmarkGet(b *testing.B) {
	p := apitest.New(b)
	serve(b, p, "POST", benchPods, fmt.Sprintf(pod, "a"))
	b.ReportAllocs()
	for b.Loop() {
		serve(b, p, "GET", benchPods+"/a", "")
	}
}

func BenchmarkList1000(b *testing.B) {
	p := apitest.New(b)
	for i := range 1000 {
		serve(b, p, "POST", benchPods, fmt.Sprintf(pod, fmt.Sprint("p", i)))
	}
	for name, accept := range map[string]string{"json": "application/json",
		"protobuf": "application/vnd.kubernetes.protobuf", "table": tables[len("Accept: "):]} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.SetBytes(int64(serve(b, p, "GET", benchPods, "", "Accept: "+accept)))
			}
		})
	}
}

func BenchmarkCreate(b *testing.B) {
	p := apitest.New(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		serve(b, p, "POST", benchPods, fmt.Sprintf(pod, fmt.Sprint("p", i)))
	}
}

func BenchmarkPatch(b *testing.B) {
	p := apitest.New(b)
	serve(b, p, "POST", benchPods, fmt.Sprintf(pod, "a"))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		serve(b, p, "PATCH", benchPods+"/a", fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, i), mergePatch)
	}
}

func BenchmarkApplySame(b *testing.B) {
	p := apitest.New(b)
	body := `{"apiVersion":"v1","kind":"Pod",` + fmt.Sprintf(pod, "a")[len(`{"apiVersion":"v1","kind":"Pod",`):]
	b.ReportAllocs()
	for b.Loop() {
		serve(b, p, "PATCH", benchPods+"/a?fieldManager=m", body, "Content-Type: application/apply-patch+yaml")
	}
}
