package fuzz

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// FuzzSelectors checks that selectors are accepted exactly if Kubernetes' own parsers accept them.
func FuzzSelectors(f *testing.F) {
	p := start(f, kinds[0], kinds[1], kinds[9])
	collections := []string{kinds[0][0], kinds[1][0], kinds[9][0], "/api/v1/configmaps"}
	for i, s := range [][2]string{
		{"l=v", "metadata.name=a"}, {"l in (v,w),!x,y notin (z)", "metadata.namespace!=default,metadata.name==a"},
		{"l>1,m<2", "status.phase=Running"}, {"", ""}, {"l in ((", `a\,b=c`},
		{strings.Repeat("a,", 1000), "spec.size=3"}, {"\x00", "=,="}, {"l notin ()", `metadata.name=\`},
		{"é=v", "spec.nodeName="},
	} {
		f.Add(uint8(i), s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, collection uint8, label, field string) {
		path := pick(collection, collections)
		_, labelErr := labels.Parse(label)
		_, fieldErr := fields.ParseSelector(field)
		query := url.Values{"labelSelector": {label}, "fieldSelector": {field}}.Encode()
		got := p.do(t, "GET", path, query, "", "", "Accept", "application/json")
		if (got.code == http.StatusOK) != (labelErr == nil && fieldErr == nil) &&
			(labelErr != nil || fieldErr != nil || got.code != http.StatusBadRequest) {
			t.Errorf("%s?%s: %d %s; the parsers say %v, %v", path, query, got.code, got.body, labelErr, fieldErr)
		}
		if got.code != http.StatusOK && got.code != http.StatusBadRequest {
			t.Errorf("%s?%s: %d %s", path, query, got.code, got.body)
		}
	})
}

// FuzzListOptions checks that continue tokens, revisions and limits of any form are served or
// refused immediately.
func FuzzListOptions(f *testing.F) {
	p := start(f, kinds[0], [2]string{kinds[0][0], `{metadata: {name: b}}`},
		[2]string{kinds[0][0], `{metadata: {name: c}}`})
	first := p.do(f, "GET", kinds[0][0], "limit=1", "", "")
	var list struct{ Metadata struct{ Continue string } }
	if err := json.Unmarshal(first.body, &list); err != nil || list.Metadata.Continue == "" {
		f.Fatalf("%s: %v", first.body, err)
	}
	token := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, s := range []struct {
		token, revision, match string
		limit                  int64
	}{
		{list.Metadata.Continue, "", "", 1}, {list.Metadata.Continue, "5", "", -1}, {"", "1", "Exact", 0},
		{"", "99999999999999999999", "NotOlderThan", 3}, {"", "-1", "Exact", 1}, {"", "0", "Exact", 1},
		{token(`{"v":"meta.k8s.io/v1","rv":-1,"start":"default/a\u0000"}`), "", "", 2},
		{token(`{"v":"meta.k8s.io/v1","rv":9223372036854775807,"start":"../../x"}`), "", "", 2},
		{token(`{"v":"v0"}`), "", "", 2}, {"!", "x", "y", 1 << 62},
		{token(`{"v":"meta.k8s.io/v1","rv":1,"start":"` + strings.Repeat("/", 99) + `"}`), "", "", 2},
	} {
		f.Add(s.token, s.revision, s.match, s.limit)
	}
	f.Fuzz(func(t *testing.T, token, revision, match string, limit int64) {
		for _, path := range []string{kinds[0][0], "/api/v1/configmaps", definitions, kinds[9][0]} {
			query := url.Values{"continue": {token}, "resourceVersion": {revision}, "resourceVersionMatch": {match},
				"limit": {fmt.Sprint(limit)}}.Encode()
			got := p.do(t, "GET", path, query, "", "", "Accept", "application/json")
			switch got.code {
			case http.StatusOK:
				if !json.Valid(got.body) {
					t.Errorf("%s?%s: %q", path, query, got.body)
				}
			case http.StatusBadRequest, http.StatusGone, http.StatusUnprocessableEntity, http.StatusGatewayTimeout:
			default:
				t.Errorf("%s?%s: %d %s", path, query, got.code, got.body)
			}
		}
	})
}

// FuzzRequest checks any method, path, query and Accept header, on all handlers.
func FuzzRequest(f *testing.F) {
	p := start(f, kinds[0], kinds[2], kinds[9])
	for _, path := range []string{
		"/api/v1/namespaces/default/configmaps/a", "/apis/apps/v1/namespaces/default/deployments/a/scale",
		"/api/v1/watch/namespaces/default/configmaps", "/apis/shop.example/v1/widgets", "/", "/openapi/v3/apis/apps/v1",
		"/openapi/v2", "/apis", "/api/v1", "/metrics", "/readyz/ping", "/version",
		"/api/v1/namespaces/default/pods/a/log", "/api/v1/namespaces//x", "//api//v1",
		"/api/v1/namespaces/default/pods/a/proxy/x",
		"/api/v1/namespaces/default", "/apis/shop.example/v1/namespaces/default/widgets/a/status", "/debug/pprof/",
		"/api/v1/nodes/a/proxy/", "/api/v1/namespaces/default/serviceaccounts/default/token",
	} {
		for i, query := range []string{"", "watch=1&timeoutSeconds=1&allowWatchBookmarks=1",
			"limit=x&pretty=1&dryRun=All&dryRun=All",
			"sendInitialEvents=true&watch=true&resourceVersionMatch=NotOlderThan", "%zz;&=&;"} {
			f.Add([]string{"GET", "GET", "POST", "GET", "OPTIONS"}[i], path, query,
				[]string{"", "*/*", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io",
					"application/vnd.kubernetes.protobuf;stream=watch"}[i])
		}
	}
	f.Add("GET", "/api//\xa8", "watch", "0")
	f.Add("GET", "/apis/\xa8/v1/\xff/x/\xfe", "", "")
	f.Fuzz(func(t *testing.T, method, path, query, accept string) {
		if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "/debug/pprof") || method == "DELETE" ||
			method == "PATCH" || method == "PUT" {
			// skip invalid paths, which net/http servers reject, profiles, which take long, and
			// deletions of the objects
			t.Skip()
		}
		if method == "POST" && !strings.Contains(query, "dryRun=All") {
			query += "&dryRun=All"
		}
		ctx, cancel := context.WithTimeout(context.Background(), maxTime)
		if strings.Contains(path+query, "watch") || strings.Contains(path+query, "%") {
			cancel()
			ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
		}
		defer cancel()
		p.within(ctx, t, method, path, query, "", "", "Accept", accept)
		if utf8.ValidString(path) {
			return
		}
		// requests are counted in metrics
		if got := p.do(t, "GET", "/metrics", "", "", ""); got.code != http.StatusOK {
			t.Errorf("/metrics after %s %s?%s: %d %s", method, path, query, got.code, got.body)
		}
	})
}
