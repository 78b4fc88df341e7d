package filters

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/internal/require"
)

// kubernetes is the parser that Info must agree with.
func kubernetes() *request.RequestInfoFactory {
	return &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api")}
}

var infoTargets = []string{
	"/", "/api", "/api/", "/api/v1", "/api/v1/", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/apps/v1/", "/healthz",
	"/version",
	"/api/v1/namespaces", "/api/v1/namespaces/x", "/api/v1/namespaces/x/", "/api/v1/namespaces/x/status",
	"/api/v1/namespaces/x/finalize",
	"/api/v1/namespaces/x/pods", "/api/v1/namespaces/x/pods/p", "/api/v1/namespaces/x/pods/p/log",
	"/api/v1/namespaces/x/pods/p/proxy/a/b",
	"/api/v1/pods", "/api/v1/pods/p", "/api/v1/nodes/n", "/api/v1/nodes/n/status",
	"/apis/apps/v1/namespaces/x/deployments/d/scale", "/apis/apps/v1/deployments",
	"/api/v1/watch/pods", "/api/v1/watch/namespaces/x/pods/p", "/api/v1/proxy/nodes/n",
	"/api/v1/proxy/namespaces/x/pods/p/rest", "/api/v1/watch",
	"//api/v1//pods", "/api/v1/namespaces//pods", "/apis/apps/v1/namespaces/x//d",
	"/api/v1/pods?watch=true", "/api/v1/pods?watch=1&resourceVersion=3", "/api/v1/pods?watch=0",
	"/api/v1/pods?watch=nonsense",
	"/api/v1/pods?fieldSelector=metadata.name%3Da", "/api/v1/pods?fieldSelector=metadata.name%3Da/b",
	"/api/v1/pods?fieldSelector=%3D%3D%3D",
	"/api/v1/pods?labelSelector=a%3Db&fieldSelector=spec.nodeName%3Dn", "/api/v1/pods?watch=true&limit=x",
	"/api/v1/pods?watch=false&limit=x",
	"/api/v1/namespaces/x/pods?labelSelector=a", "/api/v1/watch/pods?labelSelector=a", "/api/v1/pods?watch",
}

// Info parses each target, with each method, into the same result as Kubernetes.
func TestInfo(t *testing.T) {
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} {
		for _, target := range infoTargets {
			compareInfo(t, method, target)
		}
	}
}

func FuzzInfo(f *testing.F) {
	for _, target := range infoTargets {
		f.Add("GET", target)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		if _, err := url.ParseRequestURI(target); err != nil || len(target) == 0 || target[0] != '/' {
			t.Skip()
		}
		compareInfo(t, method, target)
	})
}

func compareInfo(t *testing.T, method, target string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Skip()
	}
	req := &http.Request{Method: method, URL: u}
	want, wantErr := kubernetes().NewRequestInfo(req)
	got, err := Info(req)
	require.Equalf(t, err == nil, wantErr == nil, "%s %s: error %v, want %v", method, target, err, wantErr)
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%s %s:\n got %+v\nwant %+v", method, target, *got, *want)
	}
}

func BenchmarkInfo(b *testing.B) {
	req := httptest.NewRequest("GET", "/api/v1/namespaces/default/pods/web-5d4f", nil)
	b.ReportAllocs()
	for b.Loop() {
		_, err := Info(req)
		require.NoError(b, err)
	}
}
