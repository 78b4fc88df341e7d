package apiserver_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
)

// BenchmarkKinds measures requests on a kind of Go types with two versions, in process, in the
// storage version.
func BenchmarkKinds(b *testing.B) {
	const path = "/apis/" + group + "/v1beta1/namespaces/default/pizzas"
	body := func(name string) string {
		return `{"apiVersion":"` + group + `/v1beta1","kind":"Pizza","metadata":{"name":"` + name +
			`","labels":{"app":"bench"},"annotations":{"note":"` + strings.Repeat("x", 500) +
			`"}},"spec":{"size":"large","toppings":[{"name":"mozzarella","quantity":1},{"name":"salami","quantity":2}]}}`
	}
	for _, test := range []struct {
		name, method, media string
		path, body          func(n int) string
	}{
		{"create", "POST", "application/json", func(int) string {
			return path
		}, func(n int) string { return body(fmt.Sprint("new", n)) }},
		{"get", "GET", "", func(int) string { return path + "/p" }, nil},
		{"merge patch", "PATCH", "application/merge-patch+json", func(int) string {
			return path + "/p"
		}, func(n int) string { return fmt.Sprintf(`{"metadata":{"labels":{"app":"%d"}}}`, n) }},
		{"apply new", "PATCH", "application/apply-patch+yaml", func(n int) string {
			return fmt.Sprint(path, "/applied", n, "?fieldManager=bench")
		}, func(n int) string { return body(fmt.Sprint("applied", n)) }},
		{"apply", "PATCH", "application/apply-patch+yaml", func(int) string {
			return path + "/q?fieldManager=bench"
		}, func(n int) string { return strings.Replace(body("q"), `"bench"`, fmt.Sprintf(`"%d"`, n), 1) }},
	} {
		b.Run(test.name, func(b *testing.B) {
			s, _ := newServer(b, kinds())
			client, err := rest.HTTPClientFor(quiet(s.RESTConfig()))
			require.NoError(b, err)
			send := func(method, path, media, body string) {
				req, err := http.NewRequestWithContext(b.Context(), method, s.RESTConfig().Host+path,
					strings.NewReader(body))
				require.NoError(b, err)
				req.Header.Set("Content-Type", media)
				resp, err := client.Do(req)
				require.NoError(b, err)
				defer resp.Body.Close()
				if data, _ := io.ReadAll(resp.Body); resp.StatusCode > 299 {
					b.Fatalf("%s %s: %s", method, path, data)
				}
			}
			send("POST", path, "application/json", body("p"))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				var text string
				if test.body != nil {
					text = test.body(n)
				}
				send(test.method, test.path(n), test.media, text)
			}
		})
	}
}
