package apitest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/inprocess"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/ephemeral"
)

// server is a Planes over real control planes, without a network. The header User has the caller's
// name; "admin" is an administrator.
type server struct {
	t      *testing.T
	planes *ephemeral.Planes
	client *http.Client
}

func callers(req *http.Request) (*authenticator.Response, bool, error) {
	switch name := req.Header.Get("User"); name {
	case "":
		return &authenticator.Response{User: &user.DefaultInfo{Name: user.Anonymous}}, true, nil
	case "admin":
		return &authenticator.Response{User: &user.DefaultInfo{Name: name,
			Groups: []string{user.SystemPrivilegedGroup}}}, true, nil
	default:
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
	}
}

// openPlane authenticates the same users as the server.
type openPlane struct{ *controlplane.ControlPlane }

func (openPlane) Kubeconfig(url string) (string, error) { return "kubeconfig of " + url, nil }

func (p openPlane) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if who, ok, _ := callers(req); ok {
			req = req.WithContext(filters.WithUser(req.Context(), who.User))
		}
		p.ControlPlane.Handler().ServeHTTP(w, req)
	})
}

func newServer(t *testing.T, most int, idle time.Duration) *server {
	all := ephemeral.New(ephemeral.Config{
		Start: func(ctx context.Context, start ephemeral.Start) (ephemeral.Plane, error) {
			if start.Node != "" {
				return nil, fmt.Errorf("%w: node %q", ephemeral.ErrInvalid, start.Node)
			}
			plane, err := controlplane.Start(ctx, controlplane.Config{From: start.From})
			if err != nil {
				return nil, err
			}
			return openPlane{plane}, nil
		},
		Max:  most,
		Idle: idle,
	})
	t.Cleanup(all.Close)
	return &server{t, all, &http.Client{Transport: &inprocess.Transport{Handler: behindPipeline(all)}}}
}

// behindPipeline returns a server's handler: administrators may do everything.
func behindPipeline(all *ephemeral.Planes) http.Handler {
	return all.Front(filters.New(filters.Config{
		Paths: all.Paths(), Authenticator: authenticator.RequestFunc(callers), Authorizer: authz.Masters(),
	}))
}

// do sends a request as a user, checks the status, and returns the decoded response.
func (s *server) do(as, method, path, body string, want int) map[string]any {
	s.t.Helper()
	resp := s.open(s.t.Context(), as, method, path, body)
	data := require.Body(s.t, resp)
	if resp.StatusCode != want {
		s.t.Fatalf("%s %s %s as %q: %s, want %d\n%s", method, path, body, as, resp.Status, want, data)
	}
	var answer map[string]any
	_ = json.Unmarshal(data, &answer) // not all responses are objects
	return answer
}

func (s *server) open(ctx context.Context, as, method, path, body string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://server"+path, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("User", as)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	require.NoError(s.t, err)
	return resp
}

// create creates a plane and returns its path.
func (s *server) create(body string) string {
	s.t.Helper()
	return s.do("admin", "POST", "/planes", body, 201)["path"].(string)
}

const planeConfigMaps = "/api/v1/namespaces/default/configmaps"

func planeConfigMap(name string) string { return `{"metadata":{"name":"` + name + `"}}` }

// Planes are isolated from each other; forks and bases copy the state.
func TestPlanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, 10, 0)
		created := s.do("admin", "POST", "/planes", "", 201)
		one := created["path"].(string)
		if created["url"] != "http://server"+one || created["kubeconfig"] != "kubeconfig of http://server"+one ||
			one != "/planes/"+created["id"].(string) {
			t.Errorf("made %v", created)
		}
		s.do("admin", "POST", one+planeConfigMaps, planeConfigMap("a"), 201)
		two := s.create("")
		s.do("admin", "GET", two+planeConfigMaps+"/a", "", 404)

		// A base is the state at one moment, and outlives the plane.
		s.do("admin", "PUT", "/planes/bases/prepared", `{"plane":"`+created["id"].(string)+`"}`, 200)
		s.do("admin", "POST", one+planeConfigMaps, planeConfigMap("b"), 201)
		fork := s.create(`{"fork":"` + created["id"].(string) + `"}`)
		s.do("admin", "DELETE", one, "", 204)
		s.do("admin", "DELETE", one, "", 404)
		s.do("admin", "GET", one+planeConfigMaps, "", 404)
		prepared := s.create(`{"base":"prepared"}`)
		s.do("admin", "GET", prepared+planeConfigMaps+"/a", "", 200)
		s.do("admin", "GET", prepared+planeConfigMaps+"/b", "", 404)
		s.do("admin", "GET", fork+planeConfigMaps+"/b", "", 200)

		list := s.do("admin", "GET", "/planes", "", 200)
		assert.Lenf(t, list["planes"].([]any), 3, "planes")
		if got := list["bases"].([]any); len(got) != 1 || got[0].(map[string]any)["name"] != "prepared" {
			t.Errorf("bases: %v", got)
		}
		s.do("admin", "DELETE", "/planes/bases/prepared", "", 204)
		s.do("admin", "POST", "/planes", `{"base":"prepared"}`, 404)
		s.do("admin", "GET", prepared, "", 200) // the root works with and without a trailing slash
		s.do("admin", "GET", prepared+"/", "", 200)
	})
}

func TestRefusedPlanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, 2, 0)
		one := s.create("")
		for _, test := range []struct {
			as, method, path, body string
			want                   int
		}{
			// Only administrators manage planes.
			{"", "POST", "/planes", "", 403},
			{"jane", "POST", "/planes", "", 403},
			{"jane", "GET", "/planes", "", 403},
			{"jane", "DELETE", one, "", 403},
			{"jane", "PUT", "/planes/bases/b", "{}", 403},
			{"jane", "DELETE", "/planes/bases/b", "", 403},
			{"jane", "DELETE", "/planes/none", "", 403},
			// The plane itself decides about requests to it.
			{"jane", "GET", one + "/version", "", 200},
			{"jane", "GET", one + planeConfigMaps, "", 403},
			// Invalid requests.
			{"admin", "POST", "/planes", `{"base":"none"}`, 404},
			{"admin", "POST", "/planes", `{"fork":"none"}`, 404},
			{"admin", "POST", "/planes", `{"fork":"a","base":"b"}`, 400},
			{"admin", "POST", "/planes", `{"node":"dog"}`, 400},
			{"admin", "POST", "/planes", `{"nodes":[{"count":0}]}`, 400},
			{"admin", "POST", "/planes", `{"nodes":[{"counts":1}]}`, 400},
			{"admin", "POST", "/planes", `{"stages":[{"metadata":{"name":"s"},"spec":{}}]}`, 400},
			{"admin", "POST", "/planes", `{"stages":[null]}`, 400},
			{"admin", "POST", "/planes", `{"bas":"b"}`, 400},
			{"admin", "POST", "/planes", `{} {}`, 400},
			{"admin", "POST", "/planes", `[`, 400},
			{"admin", "POST", "/planes", `{"base":"` + strings.Repeat("x", 1<<20) + `"}`, 400},
			{"admin", "PUT", "/planes", "", 405},
			{"admin", "POST", "/planes/bases/b", "{}", 405},
			{"admin", "PUT", "/planes/bases/b", `{"plane":"none"}`, 404},
			{"admin", "PUT", "/planes/bases/", `{"plane":"none"}`, 400},
			{"admin", "PUT", "/planes/bases/a/b", `{"plane":"none"}`, 400},
			{"admin", "DELETE", "/planes/bases/none", "", 404},
			{"admin", "GET", "/planes/none/api", "", 404},
			{"jane", "GET", "/planes/none/api", "", 404},
			// Max is two; refused requests don't count.
			{"admin", "POST", "/planes", "", 201},
			{"admin", "POST", "/planes", "", 429},
			{"admin", "DELETE", one, "", 204},
			{"admin", "POST", "/planes", "", 201},
		} {
			s.do(test.as, test.method, test.path, test.body, test.want)
		}
	})
}

// A page of another origin can't make a browser create or delete planes with the browser's
// certificate.
func TestCrossOriginRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, 2, 0)
		for _, test := range []struct {
			header, value string
			want          int
		}{
			{"Sec-Fetch-Site", "cross-site", 403},
			{"Sec-Fetch-Site", "same-site", 403},
			{"Origin", "https://evil.example", 403},
			{"Origin", "null", 403},
			{"Sec-Fetch-Site", "same-origin", 201},
			{"Origin", "http://server", 201},
		} {
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://server/planes", nil)
			require.NoError(t, err)
			req.Header.Set("User", "admin")
			req.Header.Set(test.header, test.value)
			resp, err := s.client.Do(req)
			require.NoError(t, err)
			resp.Body.Close()
			assert.Equalf(t, resp.StatusCode, test.want, "%s: %s: %s", test.header, test.value, resp.Status)
		}
	})
}

func TestIdlePlanesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, 10, 10*time.Minute)
		plane := s.create("")
		time.Sleep(9 * time.Minute)
		s.do("admin", "GET", plane+planeConfigMaps, "", 200)
		time.Sleep(9 * time.Minute)
		// An open watch keeps its plane.
		ctx, cancel := context.WithCancel(t.Context())
		watch := s.open(ctx, "admin", "GET", plane+planeConfigMaps+"?watch=true", "")
		time.Sleep(25 * time.Minute)
		s.do("admin", "GET", plane+planeConfigMaps, "", 200)
		cancel()
		watch.Body.Close()
		time.Sleep(9 * time.Minute)
		s.do("admin", "GET", "/planes", "", 200) // listing does not count as a request to the plane
		time.Sleep(2 * time.Minute)
		assert.Lenf(t, s.do("admin", "GET", "/planes", "", 200)["planes"].([]any), 0, "planes")
		s.do("admin", "GET", plane+planeConfigMaps, "", 404)
	})
}

// A watch ends when its plane is deleted and when the server drains.
func TestEndsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, 10, 0)
		one, two := s.create(""), s.create("")
		open := func(plane string) io.Reader {
			resp := s.open(t.Context(), "admin", "GET", plane+planeConfigMaps+"?watch=true", "")
			t.Cleanup(func() { resp.Body.Close() })
			return resp.Body
		}
		first, second := open(one), open(two)
		begin := time.Now()
		s.do("admin", "DELETE", one, "", 204)
		_, err := io.ReadAll(first)
		assert.NoErrorf(t, err, "watch of a dropped plane")
		assert.NoError(t, s.planes.Drain(t.Context()))
		_, err = io.ReadAll(second)
		assert.NoErrorf(t, err, "watch of a drained server")
		s.do("admin", "POST", "/planes", "", 503)
		assert.Equalf(t, time.Since(begin), 0, "ending the watches took")
	})
}

func BenchmarkCreateAndDrop(b *testing.B) {
	all := ephemeral.New(ephemeral.Config{
		Start: func(ctx context.Context, start ephemeral.Start) (ephemeral.Plane, error) {
			plane, err := controlplane.Start(ctx, controlplane.Config{From: start.From})
			return openPlane{plane}, err
		},
		Max: 10,
	})
	defer all.Close()
	client := &http.Client{Transport: &inprocess.Transport{Handler: all}}
	do := func(method, path, body string) (answer struct{ ID, Path string }) {
		req, _ := http.NewRequest(method, "http://server"+path, strings.NewReader(body))
		req.Header.Set("User", "admin")
		resp, err := client.Do(req)
		if err != nil || resp.StatusCode >= 300 {
			b.Fatal(resp, err)
		}
		defer resp.Body.Close()
		_ = json.NewDecoder(resp.Body).Decode(&answer) // the response to DELETE has no body
		return answer
	}
	first := do("POST", "/planes", "")
	do("PUT", "/planes/bases/b", `{"plane":"`+first.ID+`"}`)
	b.ReportAllocs()
	for b.Loop() {
		do("DELETE", do("POST", "/planes", `{"base":"b"}`).Path, "")
	}
}
