package apitest_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/apitest"
)

func names(list apitest.Object) (out []string) {
	for _, item := range list["items"].([]any) {
		out = append(out, apitest.At(item, "metadata", "name").(string))
	}
	return out
}

// All pages of a list show the revision of the first page, despite later writes. With a label
// selector, the number of remaining items is omitted.
func TestListPages(t *testing.T) {
	p := apitest.New(t)
	for i := range 5 {
		p.Want(t, 201, "POST", maps, configMap(fmt.Sprint("m", i), fmt.Sprintf(`"odd":"%d"`, i%2)))
	}
	p.Want(t, 201, "POST", "/api/v1/namespaces/other/configmaps", configMap("x", ""))

	first := p.Want(t, 200, "GET", maps+"?limit=2", "")
	if fmt.Sprint(names(first)) != "[m0 m1]" || apitest.At(first, "metadata", "remainingItemCount") != 3.0 {
		t.Errorf("%v %v", names(first), first["metadata"])
	}
	// Writes between the pages are not visible.
	p.Want(t, 200, "DELETE", maps+"/m3", "")
	p.Want(t, 201, "POST", maps, configMap("m9", ""))
	token := url.QueryEscape(apitest.At(first, "metadata", "continue").(string))
	rest := p.Want(t, 200, "GET", maps+"?continue="+token, "")
	if fmt.Sprint(names(rest)) != "[m2 m3 m4]" ||
		apitest.At(rest, "metadata", "resourceVersion") != apitest.At(first, "metadata", "resourceVersion") {
		t.Errorf("%v %v", names(rest), rest["metadata"])
	}
	exact := p.Want(t, 200, "GET", maps+"?resourceVersionMatch=Exact&resourceVersion="+
		apitest.At(first, "metadata", "resourceVersion").(string), "")
	if fmt.Sprint(names(exact)) != "[m0 m1 m2 m3 m4]" {
		t.Errorf("%v", names(exact))
	}

	selected := p.Want(t, 200, "GET", maps+"?limit=1&labelSelector=odd=0", "")
	if fmt.Sprint(names(selected)) != "[m0]" || apitest.At(selected, "metadata", "remainingItemCount") != nil ||
		apitest.At(selected, "metadata", "continue") == nil {
		t.Errorf("%v %v", names(selected), selected["metadata"])
	}
	all := p.Want(t, 200, "GET", "/api/v1/configmaps?limit=100", "")
	if fmt.Sprint(names(all)) != "[m0 m1 m2 m4 m9 x]" || apitest.At(all, "metadata", "continue") != nil {
		t.Errorf("%v %v", names(all), all["metadata"])
	}
	empty := p.Want(t, 200, "GET", "/api/v1/namespaces/none/configmaps", "")
	if empty["items"] == nil || empty["kind"] != "ConfigMapList" {
		t.Errorf("%v", empty)
	}
}

// Each invalid parameter of a list gets its status and message.
func TestListErrors(t *testing.T) {
	synctest.Test(t, testListErrors)
}

func testListErrors(t *testing.T) {
	p := apitest.New(t)
	for _, c := range []struct {
		query   string
		code    int
		message string
	}{
		{"continue=nonsense", 400, "invalid continue token: continue key is not valid"},
		{"resourceVersion=x", 400, "invalid resource version: "},
		{"resourceVersion=999", 504, "Timeout: Too large resource version: 999, current: "},
		{"resourceVersionMatch=Exact", 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"},
		{"resourceVersionMatch=Exact&resourceVersion=0", 422,
			`resourceVersionMatch "exact" is forbidden for resourceVersion "0"`},
		{"resourceVersionMatch=Some&resourceVersion=1", 422, `Unsupported value: "Some"`},
		{"sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"},
		{"labelSelector=a%3D%3D%3Db", 400, "unable to parse requirement"},
		{"fieldSelector=spec.x%3Db", 400, `"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		{"limit=many", 400, "strconv.ParseInt"},
	} {
		status := p.Want(t, c.code, "GET", maps+"?"+c.query, "")
		assert.Containsf(t, status["message"].(string), c.message, "%s: %s", c.query, status["message"])
	}
	status := p.Want(t, 504, "GET", maps+"?resourceVersion=999", "")
	if apitest.At(status, "details", "causes").([]any)[0].(map[string]any)["reason"] != "ResourceVersionTooLarge" {
		t.Errorf("%v", status)
	}
}

// The snapshot of a list is kept for five minutes. Later, its token continues in the current state.
func TestListExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := apitest.New(t)
		for i := range 3 {
			p.Want(t, 201, "POST", maps, configMap(fmt.Sprint("m", i), ""))
		}
		first := p.Want(t, 200, "GET", maps+"?limit=1", "")
		token := url.QueryEscape(apitest.At(first, "metadata", "continue").(string))
		for i := range 4 * apitest.Retain {
			p.Want(t, 200, "PATCH", maps+"/m2", fmt.Sprintf(`{"data":{"i":"%d"}}`, i), mergePatch)
		}
		p.Want(t, 200, "DELETE", maps+"/m1", "")
		p.Want(t, 200, "GET", maps+"?limit=1&continue="+token, "")
		time.Sleep(10 * time.Minute)
		for i := range 4 * apitest.Retain {
			p.Want(t, 200, "PATCH", maps+"/m2", fmt.Sprintf(`{"data":{"j":"%d"}}`, i), mergePatch)
		}
		status := p.Want(t, 410, "GET", maps+"?limit=1&continue="+token, "")
		if status["reason"] != "Expired" || !strings.Contains(status["message"].(string), "inconsistent list") {
			t.Errorf("%v", status)
		}
		token = url.QueryEscape(apitest.At(status, "metadata", "continue").(string))
		rest := p.Want(t, 200, "GET", maps+"?continue="+token, "")
		if fmt.Sprint(names(rest)) != "[m2]" {
			t.Errorf("%v", names(rest))
		}
		s := p.Watch(t, maps+"?watch=1&resourceVersion=2")
		if typ, obj, _ := s.Next(t); typ != "ERROR" || obj["code"] != 410.0 ||
			!strings.HasPrefix(obj["message"].(string), "too old resource version: 2 (") {
			t.Errorf("%s %v", typ, obj)
		}
	})
}
