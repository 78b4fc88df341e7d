package crd_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A list over all namespaces has the order of Kubernetes' keys in etcd, also across pages: a-b/…
// comes before a/….
func TestListsOverAllNamespaces(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	for _, namespace := range []string{"a", "a-b", "ab", "a0", "b"} {
		for _, name := range []string{"x", "x-y", "w"} {
			p.do("POST", "/apis/example.com/v1/namespaces/"+namespace+"/widgets",
				widget(name, `{"color":"red"}`)).want(201)
		}
	}
	want := "a-b/w a-b/x a-b/x-y a/w a/x a/x-y a0/w a0/x a0/x-y ab/w ab/x ab/x-y b/w b/x b/x-y"
	for _, limit := range []int{0, 1, 2, 4, 100} {
		var got []string
		for token, pages := "", 0; pages == 0 || token != ""; pages++ {
			list := p.do("GET", fmt.Sprintf("/apis/example.com/v1/widgets?limit=%d&continue=%s", limit, token),
				"").want(200)
			for _, item := range list.field("items").([]any) {
				metadata := item.(map[string]any)["metadata"].(map[string]any)
				got = append(got, fmt.Sprint(metadata["namespace"], "/", metadata["name"]))
			}
			token, _ = list.field("metadata.continue").(string)
			if left, ok := list.field("metadata.remainingItemCount").(float64); token != "" &&
				(!ok || int(left) != 15-len(got)) {
				t.Errorf("limit %d: %v objects remain after %d", limit, left, len(got))
			}
		}
		assert.Equalf(t, strings.Join(got, " "), want, "limit %d", limit)
	}
}

// No list of a custom kind has had a revision before its definition, so a watch from there gets
// 410, as in kube-apiserver. It would otherwise get the events of an earlier definition.
func TestWatchFromBeforeTheDefinition(t *testing.T) {
	p := newPlane(t)
	defer p.run()()
	p.do("POST", definitionsPath, widgets()).want(201)
	p.do("POST", widgetsPath, widget("old", `{"color":"red"}`)).want(201)
	p.do("DELETE", widgetsPath+"/old", "").want(200)
	p.do("DELETE", definitionsPath+"/widgets.example.com", "").want(200)
	for p.do("GET", definitionsPath+"/widgets.example.com", "").code != 404 {
	}
	created := p.do("POST", definitionsPath, widgets()).want(201).field("metadata.resourceVersion").(string)
	p.do("POST", widgetsPath, widget("a", `{"color":"red"}`)).want(201)
	want := `"message":"too old resource version: 1 (` + created + `)","reason":"Expired","code":410`
	assert.Containsf(t, p.firstEvent("1"), want, "from 1")
	if event := p.firstEvent(created); !strings.HasPrefix(event, `{"type":"ADDED"`) ||
		!strings.Contains(event, `"name":"a"`) {
		t.Errorf("from %s: %s, want a", created, event)
	}
}

// firstEvent returns the first event of a watch of widgets from a revision.
func (p *plane) firstEvent(revision string) string {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://plane"+widgetsPath+"?watch=1&resourceVersion="+revision, nil)
	require.NoError(p.t, err)
	resp, err := (&inprocess.Transport{Handler: p.handler}).RoundTrip(req)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(p.t, err)
	return line
}

// A watch whose timeout is negative ends at once. If it would have to read the state, it reports
// the passed deadline.
func TestWatchWithNegativeTimeout(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	p.do("POST", widgetsPath, widget("a", `{"color":"red"}`)).want(201)
	passed := `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
		`"message":"context deadline exceeded","reason":"InternalError","code":500}}`
	revision := p.do("GET", widgetsPath, "").field("metadata.resourceVersion").(string)
	for query, want := range map[string]string{
		"": passed, "&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan": passed,
		"&resourceVersion=0": "", "&resourceVersion=" + revision: "",
	} {
		got := p.do("GET", widgetsPath+"?watch=1&timeoutSeconds=-1"+query,
			"").want(200)
		assert.Equalf(t, strings.TrimSpace(string(got.body)), want, "%q: %s", query, got.body)
	}
	got := p.do("GET", widgetsPath+"?timeoutSeconds=-1", "").want(200)
	assert.Equalf(t, len(got.field("items").([]any)), 1, "list: %s", got.body)
}

// The error of a conversion webhook that fails has the reason that Kubernetes gives for the verb.
func TestReasonsOfFailedConversions(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets(`"versions":[`, `"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/"}}},
"versions":[{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},`)).want(201)
	revision := p.do("POST", widgetsPath, widget("a", `{"color":"red"}`)).want(201).field("metadata.resourceVersion").(string)
	p.do("POST", widgetsPath, widget("b", `{"color":"red"}`)).want(201)
	const list = "/apis/example.com/v2/namespaces/default/widgets"
	body := `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"}}`
	undecodable := "object not decodable revision=" + revision +
		": conversion webhook for example.com/v1, Kind=Widget failed: "
	corrupt := "StorageError: corrupt object, Code: 7, Key: /example.com/widgets/default/a, ResourceVersion: 0, AdditionalErrorMsg: " + undecodable
	unread := "failed to read one or more widgets.example.com from the storage: " +
		strings.Replace(corrupt, "Key: /example.com", "Key: /registry/example.com", 1)
	for _, test := range []struct {
		method, path, media, body, begin string
		reason                           any
	}{
		{"GET", list + "/a", "", "", "Internal error occurred: " + corrupt, "InternalError"},
		{"GET", list, "", "", unread, "StorageReadError"},
		{"GET", list + "?limit=1", "", "", unread, "StorageReadError"},
		{"PUT", list + "/a", "application/json", body, undecodable, nil},
		{"PATCH", list + "/a", "application/merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`, undecodable, nil},
		{"PATCH", list + "/a?fieldManager=m", "application/apply-patch+yaml", body, undecodable, nil},
		{"POST", list, "application/json", strings.Replace(body, `"a"`, `"c"`, 1),
			"conversion webhook for example.com/v2, Kind=Widget failed: ", nil},
		{"DELETE", list + "/a", "", "", "Internal error occurred: " + corrupt, "InternalError"},
	} {
		a := p.do(test.method, test.path, test.body, "Content-Type", test.media).want(500)
		if !strings.HasPrefix(a.message(), test.begin) || a.field("reason") != test.reason {
			t.Errorf("%s %s: reason %v, %s\nwant %v, %s", test.method, test.path, a.field("reason"), a.message(),
				test.reason, test.begin)
		}
	}
	a := p.do("GET", list+"/a", "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").want(500)
	if !strings.HasPrefix(a.message(), "Internal error occurred: "+corrupt) {
		t.Errorf("in a table: %s", a.message())
	}
}
