package crd_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/pipes"
	"kelson.dev/internal/require"
)

// serveWebhook answers conversion reviews with convert, over TLS. It returns its CA bundle and a
// dial function.
func serveWebhook(t *testing.T, convert func(obj map[string]any, version string) string) (
	caBundle []byte, dial func(context.Context, string, string) (net.Conn, error)) {
	t.Helper()
	return serveHandler(t, func(w http.ResponseWriter, req *http.Request) {
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID,
			Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, raw := range review.Request.Objects {
			var obj map[string]any
			assert.NoError(t, json.Unmarshal(raw.Raw, &obj))
			if problem := convert(obj, review.Request.DesiredAPIVersion); problem != "" {
				review.Response.Result = metav1.Status{Status: metav1.StatusFailure, Message: problem}
			}
			obj["apiVersion"] = review.Request.DesiredAPIVersion
			data, _ := json.Marshal(obj)
			review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Raw: data})
		}
		review.Request = nil
		assert.NoError(t, json.NewEncoder(w).Encode(review))
	})
}

// serveHandler is like serveWebhook for requests that handle answers.
func serveHandler(t *testing.T, handle http.HandlerFunc) (caBundle []byte, dial func(context.Context,
	string, string) (net.Conn, error)) {
	t.Helper()
	authority, err := pki.NewAuthority("test")
	require.NoError(t, err)
	pair, err := authority.Server("hook.example.com")
	require.NoError(t, err)
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	require.NoError(t, err)
	l, stop := pipes.Serve(handle, &tls.Config{Certificates: []tls.Certificate{certificate}})
	t.Cleanup(stop)
	return authority.PEM, l.Dial
}

// withWebhookDial makes the control plane call webhooks through dial.
func withWebhookDial(dial func(context.Context, string, string) (net.Conn, error)) func(*crd.Config) {
	return func(c *crd.Config) {
		c.Authentication = func(webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
			return &webhook.AuthenticationInfoResolverDelegator{ClientConfigForFunc: func(string) (*rest.Config,
				error) {
				return &rest.Config{Dial: dial}, nil
			}}
		}
	}
}

// webhookConversion returns the conversion section of a definition whose webhook converts.
func webhookConversion(ca []byte) string {
	return `"scope":"Namespaced","conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],` +
		`"clientConfig":{"url":"https://hook.example.com/convert","caBundle":"` +
		base64.StdEncoding.EncodeToString(ca) + `"}}},`
}

// waits counts the requests that wait for another server, as flow control does.
type waits struct{ now atomic.Int32 }

func (w *waits) Wait() (end func()) {
	w.now.Add(1)
	return func() { w.now.Add(-1) }
}

// A webhook converts created, read and listed objects. Requests release their seats while they
// wait, a list that was converted before causes no call, and the webhook's error reaches the
// client.
func TestConversionWebhook(t *testing.T) {
	calls := 0
	var waiting waits
	ca, dial := serveWebhook(t, func(obj map[string]any, version string) string {
		calls++
		if waiting.now.Load() == 0 {
			t.Error("a request that waits for the webhook keeps its seats")
		}
		spec := obj["spec"].(map[string]any)
		if version == "example.com/v1" {
			if spec["colour"] == "broken" {
				return "that is not a colour"
			}
			spec["color"] = spec["colour"]
			delete(spec, "colour")
		} else {
			spec["colour"] = spec["color"]
			delete(spec, "color")
		}
		return ""
	})
	p := newPlane(t, withWebhookDial(dial))
	p.waiting = &waiting
	v1 := `{"name":"v1","served":true,"storage":true,`
	old := `{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","properties":{"colour":{"type":"string"}}}}}}},` + v1
	p.do("POST", definitionsPath, widgets(v1, old, `"scope":"Namespaced",`, webhookConversion(ca))).want(201)

	path := strings.Replace(widgetsPath, "/v1/", "/v1beta1/", 1)
	body := strings.Replace(widget("a", `{"colour":"green"}`), "example.com/v1", "example.com/v1beta1", 1)
	a := p.do("POST", path, body).want(201)
	if a.field("spec.colour") != "green" || a.field("spec.color") != nil {
		t.Errorf("created: %s", a.body)
	}
	a = p.do("GET", widgetsPath+"/a", "").want(200)
	if a.field("spec.color") != "green" || a.field("spec.replicas") != 1.0 {
		t.Errorf("in the storage version: %s", a.body)
	}
	list := p.do("GET", path, "").want(200).field("items").([]any)
	if got := list[0].(map[string]any)["spec"].(map[string]any)["colour"]; len(list) != 1 || got != "green" {
		t.Errorf("list: %v", list)
	}
	before := calls
	p.do("GET", path, "").want(200)
	p.do("GET", path, "").want(200)
	p.do("GET", widgetsPath+"/a", "").want(200)
	if calls != before {
		t.Errorf("%d calls for lists of a revision that was converted before, and for a read that needs no conversion",
			calls-before)
	}
	assert.Equalf(t, waiting.now.Load(), 0, "requests wait after their responses")
	refused := p.do("POST", path, strings.NewReplacer("green", "broken", `"a"`, `"b"`).Replace(body))
	if refused.code != 500 || !strings.Contains(refused.message(),
		"conversion webhook for example.com/v1beta1, Kind=Widget failed: that is not a colour") {
		t.Errorf("%d %s", refused.code, refused.message())
	}
}

// A read of one object, and each change of it, converts the object again, so that no client writes
// back what a webhook returned before it was repaired.
func TestRepairedConversionWebhook(t *testing.T) {
	broken := true
	ca, dial := serveWebhook(t, func(obj map[string]any, version string) string {
		metadata, spec := obj["metadata"].(map[string]any), obj["spec"].(map[string]any)
		from, to := "colour", "color"
		if version != "example.com/v1" {
			from, to = to, from
		}
		if value, ok := spec[from]; ok && !(broken && to == "colour") {
			spec[to] = value
		}
		delete(spec, from)
		if version != "example.com/v1" && !broken {
			metadata["labels"] = map[string]any{"repaired": "yes"}
		} else {
			delete(metadata, "labels")
		}
		return ""
	})
	p := newPlane(t, withWebhookDial(dial))
	v1 := `{"name":"v1","served":true,"storage":true,`
	old := `{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","properties":{"colour":{"type":"string"}}}}}}},` + v1
	p.do("POST", definitionsPath, widgets(v1, old, `"scope":"Namespaced",`, webhookConversion(ca))).want(201)
	path := strings.Replace(widgetsPath, "/v1/", "/v1beta1/", 1)
	const table, partial = "application/json;as=Table;v=v1;g=meta.k8s.io",
		"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	for _, test := range []struct {
		name   string
		change func(name string)
	}{
		{"read", func(string) {}},
		{"PUT of what was read", func(name string) {
			p.do("PUT", path+"/"+name, string(p.do("GET", path+"/"+name, "").want(200).body)).want(200)
		}},
		{"merge patch", func(name string) {
			p.do("PATCH", path+"/"+name, `{"metadata":{"annotations":{"a":"b"}}}`, "Content-Type",
				"application/merge-patch+json").want(200)
		}},
		{"JSON patch", func(name string) {
			p.do("PATCH", path+"/"+name, `[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`,
				"Content-Type", "application/json-patch+json").want(200)
		}},
		{"apply", func(name string) {
			p.do("PATCH", path+"/"+name+"?fieldManager=m&force=true",
				`{"apiVersion":"example.com/v1beta1","kind":"Widget","metadata":{"name":"`+name+
					`","annotations":{"a":"b"}}}`,
				"Content-Type", "application/apply-patch+yaml").want(200)
		}},
	} {
		broken = true
		name := strings.ReplaceAll(strings.ToLower(test.name), " ", "-")
		p.do("POST", widgetsPath, widget(name, `{"color":"green"}`)).want(201)
		for _, accept := range []string{"application/json", table, partial} {
			p.do("GET", path+"/"+name+"?includeObject=Object", "", "Accept", accept).want(200)
		}
		p.do("GET", path, "").want(200)
		broken = false
		test.change(name)
		a := p.do("GET", widgetsPath+"/"+name, "").want(200)
		assert.Equalf(t, a.field("spec.color"), "green", "%s: the field is lost: %s", test.name, a.body)
		a = p.do("GET", path+"/"+name, "").want(200)
		assert.Equalf(t, a.field("spec.colour"), "green", "%s: GET: %s", test.name, a.body)
		a = p.do("GET", path+"/"+name, "", "Accept", partial).want(200)
		assert.Equalf(t, a.field("metadata.labels.repaired"), "yes", "%s: metadata: %s", test.name, a.body)
		for _, a := range []*answer{p.do("GET", path+"/"+name+"?includeObject=Object", "", "Accept", table).want(200),
			p.do("GET", path, "").want(200)} {
			if strings.Count(string(a.body), `"colour":"green"`) == 0 {
				t.Errorf("%s: the table, or the list after it: %s", test.name, a.body)
			}
		}
		p.do("DELETE", widgetsPath+"/"+name, "").want(200)
	}
}

// A webhook may change labels and annotations. Responses with only the metadata have them.
func TestConversionWebhookChangesMetadata(t *testing.T) {
	ca, dial := serveWebhook(t, func(obj map[string]any, version string) string {
		obj["metadata"].(map[string]any)["labels"] = map[string]any{"as": strings.TrimPrefix(version, "example.com/")}
		return ""
	})
	p := newPlane(t, withWebhookDial(dial))
	v1 := `{"name":"v1","served":true,"storage":true,`
	old := `{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},` + v1
	p.do("POST", definitionsPath, widgets(v1, old, `"scope":"Namespaced",`, webhookConversion(ca))).want(201)
	p.do("POST", widgetsPath, widget("a", `{"color":"green"}`)).want(201)
	path := strings.Replace(widgetsPath, "/v1/", "/v1beta1/", 1)
	for _, accept := range []string{"application/json",
		"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"} {
		got := p.do("GET", path+"/a", "", "Accept", accept).want(200).field("metadata.labels.as")
		assert.Equalf(t, got, "v1beta1", "%s: label", accept)
	}
	for accept, row := range map[string]string{
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io": "items",
		"application/json;as=Table;v=v1;g=meta.k8s.io":                     "rows",
	} {
		list := p.do("GET", path, "", "Accept", accept).want(200)
		assert.Containsf(t, string(list.body), `"labels":{"as":"v1beta1"}`, "%s", row)
	}
}

// No manager owns fields that a webhook adds in a conversion: ownership is computed in the version
// of the request.
func TestConversionWebhookOwnsNothing(t *testing.T) {
	ca, dial := serveWebhook(t, func(obj map[string]any, version string) string {
		metadata, spec := obj["metadata"].(map[string]any), obj["spec"].(map[string]any)
		if version == "example.com/v1" {
			delete(metadata, "annotations")
			spec["color"] = spec["old"]
		} else {
			spec["old"] = spec["color"]
			metadata["annotations"] = map[string]any{"example.com/lost": "what this version has no field for"}
		}
		return ""
	})
	p := newPlane(t, withWebhookDial(dial))
	v1 := `{"name":"v1","served":true,"storage":true,`
	old := `{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","required":["old"],"properties":{"old":{"type":"string"}}}}}}},` + v1
	p.do("POST", definitionsPath, widgets(v1, old, `"scope":"Namespaced",`, webhookConversion(ca))).want(201)

	path := strings.Replace(widgetsPath, "/v1/", "/v1beta1/", 1)
	body := strings.Replace(widget("a", `{"old":"x"}`), "example.com/v1", "example.com/v1beta1", 1)
	for _, a := range []*answer{
		p.do("POST", path, body).want(201),
		p.do("PATCH", path+"/a?fieldManager=m", `{"metadata":{"labels":{"b":"c"}}}`, "Content-Type",
			"application/merge-patch+json").want(200),
	} {
		fields, _ := json.Marshal(a.field("metadata.managedFields"))
		if a.field("metadata.annotations") == nil || strings.Contains(string(fields), "example.com/lost") {
			t.Errorf("%s\nowned: %s", a.body, fields)
		}
	}
	// The rules of the request's version report the missing field.
	refused := p.do("POST", path, strings.Replace(body, `"old":"x"`, "", 1))
	if refused.code != 422 || !strings.Contains(refused.message(), "spec.old: Required value") {
		t.Errorf("%d %s", refused.code, refused.message())
	}
}
