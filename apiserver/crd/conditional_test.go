package crd_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client that has a document about the API gets 304 only while the document is the same, even if
// the document changes within the second of the first response. kubectl keeps documents on disk, so
// that a wrong 304 would hide a new kind.
func TestConditionalDocuments(t *testing.T) {
	const (
		aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		plain      = "application/json"
	)
	for _, document := range []struct{ path, accept string }{
		{"/openapi/v3", plain}, {"/openapi/v2", plain}, {"/openapi/v3/apis/example.com/v1", plain},
		{"/apis", aggregated}, {"/apis", plain}, {"/apis/example.com", plain}, {"/apis/example.com/v1", plain},
	} {
		for _, encoding := range []string{"identity", "gzip"} {
			name := document.path + ", " + document.accept + ", " + encoding
			p := newPlane(t)
			v1 := `{"name":"v1","served":true,"storage":true,`
			p.do("POST", definitionsPath, widgets()).want(http.StatusCreated)
			header := []string{"Accept", document.accept, "Accept-Encoding", encoding, "If-Modified-Since",
				time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}
			first := p.do("GET", document.path, "", header...).want(http.StatusOK)
			if dated := first.header.Get("Last-Modified"); dated != "" {
				t.Errorf("%s: Last-Modified is %s, which does not change with the document", name, dated)
			}
			if etag := first.header.Get("Etag"); etag != "" {
				header = append(header, "If-None-Match", etag)
				p.do("GET", document.path, "", header...).want(http.StatusNotModified)
			}
			p.do("PUT", definitionsPath+"/widgets.example.com",
				strings.NewReplacer(`"v1","served"`, `"v1","served"`, "note", "remark",
					v1, `{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},`+
						v1,
					`"shortNames":["wd"]`, `"shortNames":["wi"]`,
					`"name":"widgets.example.com"`, `"name":"widgets.example.com","resourceVersion":"`+
						p.revision(definitionsPath+"/widgets.example.com")+`"`).
					Replace(widgets())).want(http.StatusOK)
			if changed := p.do("GET", document.path, "", header...); changed.code != http.StatusOK ||
				string(changed.body) == string(first.body) {
				t.Errorf("%s: %d after a change", name, changed.code)
			}
		}
	}
}

// revision returns the resourceVersion of an object.
func (p *plane) revision(path string) string {
	return p.do("GET", path, "").want(http.StatusOK).field("metadata.resourceVersion").(string)
}
