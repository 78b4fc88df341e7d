package builtin

import (
	"fmt"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
)

const (
	servicePath = "/api/v1/namespaces/default/services"
	addressPath = "/apis/networking.k8s.io/v1/ipaddresses"
)

func TestServiceAddresses(t *testing.T) {
	s := serve(t, Config{ServiceRange: "10.0.0.0/29", NodePorts: "30000-30001"})
	created := s.do(201, "POST", servicePath, `{metadata: {name: a}, spec: {ports: [{port: 80}]}}`)
	ip := str(created, "spec", "clusterIP")
	if !strings.HasPrefix(ip, "10.0.0.") || str(created, "spec", "clusterIPs") != `["`+ip+`"]` ||
		str(created, "spec", "ipFamilies") != `["IPv4"]` || str(created, "spec", "ipFamilyPolicy") != "SingleStack" {
		t.Errorf("service %s", mustJSON(t, created))
	}
	want(t, "taken address", s.refused(422, "Invalid", "POST", servicePath,
		`{metadata: {name: b}, spec: {clusterIP: `+ip+`, ports: [{port: 80}]}}`),
		`Service "b" is invalid: spec.clusterIPs: Invalid value: ["`+ip+`"]: failed to allocate IP `+ip+
			`: provided IP is already allocated`)
	want(t, "headless", str(s.do(201, "POST", servicePath,
		`{metadata: {name: h}, spec: {clusterIP: None, selector: {a: b}, ports: [{port: 80}]}}`), "spec", "clusterIPs"),
		`["None"]`)
	want(t, "external name", str(s.do(201, "POST", servicePath,
		`{metadata: {name: e}, spec: {type: ExternalName, externalName: example.com}}`), "spec", "clusterIP"), "")

	// A client can send a manifest without the address again: the Service keeps its address. The
	// server refuses a changed address.
	again := s.do(200, "PUT", servicePath+"/a", `{metadata: {name: a}, spec: {ports: [{port: 81}]}}`)
	want(t, "address after update", str(again, "spec", "clusterIP"), ip)
	s.refused(422, "Invalid", "PATCH", servicePath+"/a", `{"spec":{"clusterIP":"10.0.0.9"}}`)

	// The range has six addresses. Refused writes, dry runs and deleted Services do not use up
	// addresses.
	for i := range 5 {
		s.do(201, "POST", servicePath+"?dryRun=All",
			fmt.Sprintf(`{metadata: {name: dry%d}, spec: {ports: [{port: 80}]}}`, i))
		s.do(201, "POST", servicePath, fmt.Sprintf(`{metadata: {name: n%d}, spec: {ports: [{port: 80}]}}`, i))
		if i < 4 { // addresses are checked before names
			s.refused(409, "AlreadyExists", "POST", servicePath, `{metadata: {name: a}, spec: {ports: [{port: 80}]}}`)
			s.refused(422, "Invalid", "POST", servicePath, `{metadata: {name: wrong}, spec: {ports: [{port: -1}]}}`)
		}
	}
	msg := s.refused(500, "InternalError", "POST", servicePath,
		`{metadata: {name: full}, spec: {ports: [{port: 80}]}}`)
	assert.Containsf(t, msg, "range is full", "message")
	s.do(200, "DELETE", servicePath+"/a", "")
	want(t, "address", str(s.do(201, "POST", servicePath, `{metadata: {name: full}, spec: {ports: [{port: 80}]}}`),
		"spec", "clusterIP"), ip)
}

func TestNodePorts(t *testing.T) {
	s := serve(t, Config{NodePorts: "30000-30001"})
	created := s.do(201, "POST", servicePath, `{metadata: {name: a}, spec: {type: NodePort, ports: [{port: 80}]}}`)
	ports := str(created, "spec", "ports")
	assert.Containsf(t, ports, `"nodePort":3000`, "ports")
	again := s.do(200, "PUT", servicePath+"/a", `{metadata: {name: a}, spec: {type: NodePort, ports: [{port: 80}]}}`)
	want(t, "ports after update", str(again, "spec", "ports"), ports)
	s.do(201, "POST", servicePath, `{metadata: {name: b}, spec: {type: NodePort, ports: [{port: 80}]}}`)
	full := `{metadata: {name: c}, spec: {type: NodePort, ports: [{port: 80}]}}`
	msg := s.refused(500, "InternalError", "POST", servicePath, full)
	assert.Containsf(t, msg, "failed to allocate a nodePort: range is full", "message")
	s.do(200, "PATCH", servicePath+"/a", `{"spec":{"type":"ClusterIP"}}`) // releases its port
	want(t, "ports", str(s.do(201, "POST", servicePath, full), "spec", "ports"), ports)
}

// A control plane that starts with stored Services does not allocate their addresses and ports
// again.
func TestStoredServices(t *testing.T) {
	s := serve(t, Config{ServiceRange: "10.0.0.0/29"})
	for i := range 5 {
		s.do(201, "POST", servicePath, fmt.Sprintf(`{metadata: {name: n%d}, spec: {ports: [{port: 80}]}}`, i))
	}
	next := serveStore(t, Config{ServiceRange: "10.0.0.0/29"}, s.store.Snapshot().Fork())
	next.do(201, "POST", servicePath, `{metadata: {name: last}, spec: {ports: [{port: 80}]}}`)
	next.refused(500, "InternalError", "POST", servicePath, `{metadata: {name: full}, spec: {ports: [{port: 80}]}}`)
	s.do(201, "POST", servicePath, `{metadata: {name: own}, spec: {ports: [{port: 80}]}}`)
}

func TestBadRanges(t *testing.T) {
	for _, cfg := range []Config{{ServiceRange: "10.0.0.0"}, {ServiceRange: "10.0.0.0/24,10.1.0.0/24"},
		{ServiceRange: "10.0.0.0/24,fd00::/112,fd01::/112"}, {NodePorts: "a-b"}} {
		if _, err := Resources(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

// With ranges of both families, Services get addresses by ipFamilyPolicy and ipFamilies.
func TestDualStackServices(t *testing.T) {
	s := serve(t, Config{ServiceRange: "10.0.0.0/24,fd00::/112"})
	for _, c := range []struct{ spec, policy, families string }{
		{`ports: [{port: 80}]`, "SingleStack", `["IPv4"]`},
		{`ipFamilies: [IPv6], ports: [{port: 80}]`, "SingleStack", `["IPv6"]`},
		{`ipFamilyPolicy: PreferDualStack, ports: [{port: 80}]`, "PreferDualStack", `["IPv4","IPv6"]`},
		{`ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6], ports: [{port: 80}]`, "RequireDualStack",
			`["IPv6","IPv4"]`},
		{`ipFamilyPolicy: RequireDualStack, clusterIP: "fd00::9", clusterIPs: ["fd00::9", 10.0.0.9], ports: [{port: 80}]`, "RequireDualStack", `["IPv6","IPv4"]`},
		{`clusterIP: None, ipFamilyPolicy: PreferDualStack, selector: {a: b}, ports: [{port: 80}]`, "PreferDualStack",
			`["IPv4","IPv6"]`},
	} {
		created := s.do(201, "POST", servicePath, `{metadata: {generateName: d}, spec: {`+c.spec+`}}`)
		if str(created, "spec", "ipFamilyPolicy") != c.policy || str(created, "spec", "ipFamilies") != c.families {
			t.Errorf("%s: %s", c.spec, mustJSON(t, created))
		}
		if ips := str(created, "spec", "clusterIPs"); strings.Contains(ips, "fd00::") != strings.Contains(c.families,
			"IPv6") && !strings.Contains(ips, "None") {
			t.Errorf("%s: %s", c.spec, ips)
		}
	}
	msg := s.refused(422, "Invalid", "POST", servicePath,
		`{metadata: {name: e}, spec: {clusterIP: "fd00::9", ports: [{port: 80}]}}`)
	assert.Contains(t, msg, "provided IP is already allocated")
	// From one family to two and back: the second address is released.
	s.do(201, "POST", servicePath, `{metadata: {name: u}, spec: {ports: [{port: 80}]}}`)
	updated := s.do(200, "PATCH", servicePath+"/u", `{"spec":{"ipFamilyPolicy":"PreferDualStack"}}`)
	want(t, "families", str(updated, "spec", "ipFamilies"), `["IPv4","IPv6"]`)
	down := s.do(200, "PATCH", servicePath+"/u", `{"spec":{"ipFamilyPolicy":"SingleStack"}}`)
	want(t, "families", str(down, "spec", "ipFamilies"), `["IPv4"]`)
	for _, text := range strings.Split(strings.Trim(str(updated, "spec", "clusterIPs"), `[]"`), `","`) {
		code := map[bool]int{true: 200, false: 404}[text == str(down, "spec", "clusterIP")]
		s.do(code, "GET", addressPath+"/"+text, "")
	}

	// A Service that becomes a name releases its address, whether the client removes it or not.
	for service, spec := range map[string]string{"u": `"clusterIP":"","clusterIPs":null,`, "v": ""} {
		if service == "v" {
			down = s.do(201, "POST", servicePath, `{metadata: {name: v}, spec: {ports: [{port: 80}]}}`)
		}
		name := s.do(200, "PATCH", servicePath+"/"+service,
			`{"spec":{`+spec+`"type":"ExternalName","externalName":"example.com"}}`)
		want(t, "traffic policy of a name", str(name, "spec", "internalTrafficPolicy"), "")
		s.do(404, "GET", addressPath+"/"+str(down, "spec", "clusterIP"), "")
	}

	alone := serve(t, Config{ServiceRange: "10.0.0.0/24"})
	msg = alone.refused(422, "Invalid", "POST", servicePath,
		`{metadata: {name: e}, spec: {ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}}`)
	assert.Contains(t, msg, "this cluster is not configured for dual-stack services")
}

// The port in the name of a pod can be one that no address has.
func TestProxyOfAMalformedPort(t *testing.T) {
	s := serve(t, Config{})
	s.do(201, "POST", podPath, podManifest)
	s.do(200, "PATCH", podPath+"/p/status", `{"status":{"podIP":"203.0.113.1","podIPs":[{"ip":"203.0.113.1"}]}}`)
	want(t, "message", s.refused(400, "BadRequest", "GET", podPath+"/p:80%40evil/proxy/", ""),
		`invalid pod request "p:80@evil"`)
}

// As in kube-apiserver, the proxy reads a Service only to find the name of a port.
func TestProxyOfMissingService(t *testing.T) {
	s := serve(t, Config{})
	const none = `no endpoints available for service "x"`
	for _, name := range []string{"x", "x:http", "https:x:"} {
		want(t, name, s.refused(503, "ServiceUnavailable", "GET", servicePath+"/"+name+"/proxy/", ""), none)
	}
	want(t, "number", s.refused(404, "NotFound", "GET", servicePath+"/x:80/proxy", ""), `services "x" not found`)
	s.refused(400, "BadRequest", "GET", servicePath+"/a:b:c:d/proxy", "")
	s.do(201, "POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
		`{metadata: {name: s, labels: {kubernetes.io/service-name: x}}, addressType: IPv4, endpoints: [{addresses: [10.1.2.3]}], ports: [{name: "", port: 80}]}`)
	want(t, "endpoint without a pod", s.refused(503, "ServiceUnavailable", "GET", servicePath+"/x/proxy", ""), none)
	s.do(201, "POST", servicePath, `{metadata: {name: web}, spec: {ports: [{port: 80}]}}`)
	want(t, "another port", s.refused(503, "ServiceUnavailable", "GET", servicePath+"/web:81/proxy", ""),
		`no service port 81 found for service "web"`)
	want(t, "no slices", s.refused(503, "ServiceUnavailable", "GET", servicePath+"/web:80/proxy", ""),
		`no endpoints available for service "web"`)
}
