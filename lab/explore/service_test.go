package explore_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
)

// servicesProgram builds an operator that calls services with a transport of its own.
func servicesProgram(t *testing.T) string {
	t.Helper()
	return builtProgram(t, callingHTTP)
}

// zones returns an operator that creates a zone in a service for each ConfigMap.
func zones(program, address string, env ...string) explore.Scenario {
	web := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"web": "yes"}}}
	s := explore.Scenario{Inputs: []explore.Input{explore.Create(web)},
		Program: &explore.Binary{Path: program, Env: append(env, "CORRECT=yes", "ZONES="+address)}}
	created := "created"
	s.Services = []explore.Service{{Address: strings.Replace(address, "//dns.", "//*.", 1), Answers: []explore.Answer{
		{Method: http.MethodGet, Path: "/zones/*", State: &created, Body: map[string]any{"name": "web"}},
		{Method: http.MethodGet, Path: "/zones/*", Status: http.StatusNotFound},
		{Method: http.MethodPost, Path: "/zones", Status: http.StatusCreated, Becomes: &created, Delay: 2 * time.Second},
	}}}
	return s
}

var ofCalls = []explore.Kind{explore.KillBefore, explore.KillAfter, explore.Lose, explore.Refuse, explore.Unavailable,
	explore.SlowResponse, explore.Hold}

// An operator that creates a zone again after a kill or a lost response is found, over TLS and
// without it. One that looks for the zone first raises no alarm. Equal plans have equal histories.
func TestServices(t *testing.T) {
	program := servicesProgram(t)
	for _, at := range []struct{ host, prefix string }{{"https://dns.example.com", "/v1"},
		{"http://dns.example.com:8080", ""}} {
		address := at.host + at.prefix
		faulty := alarmsOf(t, zones(program, address), ofCalls...)
		want := "POST " + address + "/zones is called twice, without faults once"
		post := " POST " + at.host + " " + at.prefix + "/zones #1"
		if a := faulty["O2 kill-after"+post]; a.Detail != want || len(faulty) != 1 {
			t.Errorf("%s: %q, want %q in %v", address, a.Detail, want, faulty)
		}
		if got, steps := replayed(t, zones(program, address), "lose-response"+post); got != "O2 "+want {
			t.Errorf("%s: %q, want %q\n%s", address, got, want, steps)
		}
		s := zones(program, address, "CAREFUL=yes")
		report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true, Kinds: ofCalls})
		if err != nil || len(report.Alarms) > 0 {
			t.Errorf("%s: %v, %v", address, err, report.Alarms)
		}
		for _, kind := range []string{"refuse", "5xx", "slow-response"} {
			plan := kind + " GET " + at.host + " " + at.prefix + "/zones/web #1"
			got, steps := replayed(t, s, plan)
			if got != "" || !strings.Contains(steps, "FAULT "+plan) ||
				!strings.Contains(steps, "response: POST "+at.host+" "+at.prefix+"/zones") {
				t.Errorf("%s: %q\n%s", plan, got, steps)
			}
		}
		repetition, err := explore.Repeat(t, s, "lose-response"+post, runs(t))
		if err != nil || repetition.Unequal > 0 {
			t.Errorf("%v, %v: want equal histories", repetition, err)
		}
	}
}

// descriptorsOfZones describe the gRPC service of the operator in testdata/program.
func descriptorsOfZones() *descriptorpb.FileDescriptorSet {
	const message = ".google.protobuf.Struct"
	method := func(name string) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{Name: &name, InputType: proto.String(message),
			OutputType: proto.String(message)}
	}
	return &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(structpb.File_google_protobuf_struct_proto),
		{Name: proto.String("zones.proto"), Package: proto.String("zones.v1"), Syntax: proto.String("proto3"),
			Dependency: []string{"google/protobuf/struct.proto"},
			Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Zones"),
				Method: []*descriptorpb.MethodDescriptorProto{method("GetZone"), method("CreateZone")}}}}}}
}

// gRPC calls have the same faults and alarms as those over HTTP: with TLS and without it, with the
// resolver for DNS, and compressed.
func TestServicesOfGRPC(t *testing.T) {
	program := builtProgram(t, callingGRPC)
	created := "created"
	scenario := func(zones string, env ...string) explore.Scenario {
		web := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"web": "yes"}}}
		return explore.Scenario{Inputs: []explore.Input{explore.Create(web)},
			Program: &explore.Binary{Path: program, Env: append(env, "CORRECT=yes", "ZONES="+zones)},
			Services: []explore.Service{{Address: "grpc://dns.example.com:443", Descriptors: descriptorsOfZones(),
				Answers: []explore.Answer{
					{Path: "/zones.v1.Zones/GetZone", State: &created, Body: map[string]any{"name": "web"}},
					{Path: "/zones.v1.Zones/GetZone", Code: codes.NotFound, Message: "no zone"},
					{Path: "/zones.v1.Zones/CreateZone", Becomes: &created, Delay: 2 * time.Second},
				}}}}
	}
	const post = " CALL grpc://dns.example.com:443 /zones.v1.Zones/CreateZone #1"
	const twice = "CALL grpc://dns.example.com:443/zones.v1.Zones/CreateZone is called twice, without faults once"
	for zones, env := range map[string][]string{"dns.example.com:443": {"GZIP=yes"},
		"dns:///dns.example.com:443": {"PLAIN=yes"}} {
		faulty := alarmsOf(t, scenario(zones, env...), ofCalls...)
		if a := faulty["O2 kill-after"+post]; a.Detail != twice || len(faulty) != 1 {
			t.Errorf("%s: %v, want %q", zones, faulty, twice)
		}
		if got, steps := replayed(t, scenario(zones, env...), "lose-response"+post); got != "O2 "+twice {
			t.Errorf("%s: %q, want %q\n%s", zones, got, twice, steps)
		}
		careful := scenario(zones, append(env, "CAREFUL=yes")...)
		report, err := explore.Explore(t, careful, explore.Options{For: time.Hour, OneFault: true, Kinds: ofCalls})
		if err != nil || len(report.Alarms) > 0 {
			t.Errorf("%s: %v, %v", zones, err, report.Alarms)
		}
		for _, kind := range []string{"refuse", "5xx", "slow-response"} {
			plan := kind + " QUERY grpc://dns.example.com:443 /zones.v1.Zones/GetZone #1"
			got, steps := replayed(t, careful, plan)
			if got != "" || !strings.Contains(steps, "FAULT "+plan) || !strings.Contains(steps, "response: CALL") {
				t.Errorf("%s: %q\n%s", plan, got, steps)
			}
		}
	}
}

// Wrong descriptors and answers of gRPC services are refused, with the field.
func TestConfigOfGRPC(t *testing.T) {
	data, err := proto.Marshal(descriptorsOfZones())
	require.NoError(t, err)
	read := func(config string) (explore.Scenario, error) {
		dir := project(t, "services: ["+config+"]")
		for name, content := range map[string][]byte{"zones.binpb": data, "text": []byte("x")} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		}
		return explore.Project(dir, nil)
	}
	const begin = "{address: 'grpc://a:1', descriptors: zones.binpb, answers: [{"
	s, err := read(begin + "path: /zones.v1.Zones/GetZone, code: NOT_FOUND, message: none}, {body: {name: a}}]}")
	if err != nil || s.Services[0].Answers[0].Code != codes.NotFound {
		t.Errorf("%v, %+v", err, s.Services)
	}
	for config, want := range map[string]string{
		"{address: 'grpc://a', descriptors: zones.binpb, answers: [{}]}": "want grpc://HOST:PORT",
		"{address: 'grpc://a:1', answers: [{}]}":                         "grpc://a:1 has no descriptors",
		"{address: 'http://a', descriptors: zones.binpb, answers: [{}]}": "need an address with grpc://",
		"{address: 'grpc://a:1', descriptors: text, answers: [{}]}":      "services[0]: descriptors text: ",
		"{address: 'grpc://a:1', descriptors: none, answers: [{}]}":      "no such file",
		begin + "path: /zones.v1.Zones/Get}]}":                           `no method of the descriptors has it`,
		begin + "status: 500}]}":                                         "has no method, status or headers",
		begin + "code: NOT_FOUND, body: {}}]}":                           "a code other than OK has no body",
		begin + "body: [1]}]}":                                           "Zone: ",
		"{address: 'http://a', answers: [{code: NOT_FOUND}]}":            "code and message need an address with grpc://",
	} {
		_, err := read(config)
		assert.ErrorContainsf(t, err, want, "%s", config)
	}
}

// What calls have left is part of the state: an operator that creates the zone after its first
// Secret, and looks only for that, never creates the zone after a kill. A request without an answer
// is reported. A program may read the authority of the services from a file.
func TestStateOfServices(t *testing.T) {
	program := servicesProgram(t)
	s := zones(program, "https://dns.example.com/v1", "LATE=yes")
	s.Services[0].Answers = s.Services[0].Answers[1:]
	alarms := alarmsOf(t, s, explore.KillAfter)
	a := alarms["O1 kill-after create secrets default/web-key #1"]
	assert.Containsf(t, a.Detail, "https://dns.example.com/v1/zones: is missing", "%v", alarms)
	s = zones(program, "https://dns.example.com/v1", "CAREFUL=yes", "CA=$SERVICES_CA")
	s.Services[0].Answers = s.Services[0].Answers[2:]
	report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true, Plans: 1})
	const want = "no service has an answer in explore.yaml, so it is 404: GET https://dns.example.com/v1/zones/web"
	if err != nil || !strings.Contains(report.Summary(), want) {
		t.Errorf("%v, %s\nwant %q", err, report.Summary(), want)
	}
}

// explore.yaml describes services. Wrong ones are refused, with the field.
func TestConfigOfServices(t *testing.T) {
	s, err := explore.Project(project(t, `
services:
- address: https://*.example.com/v1
  answers:
  - {method: POST, path: /zones, status: 201, headers: {Location: /v1/zones/1}, body: {id: 1}, delay: 2s, becomes: created}
  - {path: /zones/**, state: created, body: text, times: 2}
  - {method: GET, fails: true}
`), nil)
	require.NoError(t, err)
	if len(s.Services) != 1 || len(s.Services[0].Answers) != 3 {
		t.Fatalf("%+v", s.Services)
	}
	if a := s.Services[0].Answers[0]; a.Status != 201 || a.Header.Get("Location") != "/v1/zones/1" ||
		a.Delay != 2*time.Second || a.Becomes == nil || *a.Becomes != "created" || a.State != nil {
		t.Errorf("%+v", a)
	}
	for config, want := range map[string]string{
		"services: [{address: example.com, answers: [{}]}]":                        `address "example.com": want HOST:PORT or a URL`,
		"services: [{address: 'ftp://a', answers: [{}]}]":                          "want HOST:PORT, or a URL with http, https or grpc",
		"services: [{address: 'http://a'}]":                                        "services[0]: http://a has no answers",
		"services: [{address: 'http://a', answers: [{path: zones}]}]":              `answers[0]: path "zones": want a path such as /zones/*`,
		"services: [{address: 'http://a', answers: [{method: get}]}]":              `method "get": want upper case, such as GET`,
		"services: [{address: 'http://a', answers: [{status: 99}]}]":               "status 99: want 200 to 599",
		"services: [{address: 'http://a', answers: [{fails: true, status: 200}]}]": "an answer that fails has no status, no code and no body",
		"services: [{address: 'http://a', answers: [{body: a, file: b}]}]":         "set one of body and file",
		"services: [{address: 'http://a', answers: [{file: missing.json}]}]":       "missing.json: no such file",
		"services: [{address: 'http://a', answers: [{times: -1}]}]":                "times and delay must not be negative",
		"services: [{address: 'http://a', answers: [{path: '/a/**/b'}]}]":          `path "/a/**/b": want`,
		"services: [{address: 'http://a?b=c', answers: [{}]}]":                     `address "http://a?b=c": want`,
	} {
		_, err := explore.Project(project(t, config), nil)
		assert.ErrorContainsf(t, err, want, "%s", config)
	}
}
