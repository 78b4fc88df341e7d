package node

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func portOf(t *testing.T, address string) intstr.IntOrString {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return intstr.FromInt(port)
}

// Probes over the network: which responses count as healthy, and the messages of failures.
func TestNetworkProbes(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/away":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		case r.URL.Path == "/here":
			http.Redirect(w, r, "/bad", http.StatusFound)
		case r.URL.RequestURI() != "/ok?x=1" || r.UserAgent() != "kube-probe/1.37" || r.Host != "name" ||
			r.Header.Get("X-A") != "b":
			http.Error(w, r.URL.RequestURI()+r.UserAgent()+r.Host, http.StatusTeapot)
		}
	}
	plain := httptest.NewServer(http.HandlerFunc(answer))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(answer))
	defer secure.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	states := health.NewServer()
	states.SetServingStatus("broken", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, states)
	go server.Serve(listener)
	defer server.Stop()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()

	http, https, unused := portOf(t, plain.Listener.Addr().String()), portOf(t, secure.Listener.Addr().String()),
		portOf(t, closed.Addr().String())
	health := portOf(t, listener.Addr().String()).IntVal
	headers := []corev1.HTTPHeader{{Name: "Host", Value: "name"}, {Name: "x-a", Value: "b"}}
	broken, unknown := "broken", "unknown"
	spec := &corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: http.IntVal}}}
	for _, test := range []struct {
		name  string
		probe corev1.ProbeHandler
		want  string // part of the failure; "" means healthy
	}{
		{"http", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: http, Path: "/ok?x=1", HTTPHeaders: headers}},
			""},
		{"http without a slash, by the port's name",
			corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("web"), Path: "ok?x=1",
				HTTPHeaders: headers, Scheme: "HTTP"}}, ""},
		{"https", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: https, Path: "/ok?x=1", HTTPHeaders: headers,
			Scheme: "HTTPS"}}, ""},
		{"redirect to another host", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: http, Path: "/away"}},
			""},
		{"redirect to the same host", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: http, Path: "/here"}},
			"statuscode: 418"},
		{"status", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: http, Path: "/"}},
			"HTTP probe failed with statuscode: 418"},
		{"closed", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: unused}}, "connection refused"},
		{"tcp", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: http}}, ""},
		{"tcp closed", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: unused}}, "connection refused"},
		{"grpc", corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: health}}, ""},
		{"grpc broken", corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: health, Service: &broken}},
			`service unhealthy (responded with "NOT_SERVING")`},
		{"grpc unknown", corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: health, Service: &unknown}},
			"unknown service"},
		{"grpc closed", corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: unused.IntVal}}, "connection refused"},
	} {
		err := target{spec: spec, ip: "127.0.0.1"}.probe(t.Context(),
			&corev1.Probe{ProbeHandler: test.probe, TimeoutSeconds: 30}, "kube-probe/1.37")
		var failure *unhealthyError
		if (err == nil) != (test.want == "") ||
			err != nil && (!errors.As(err, &failure) || !strings.Contains(failure.output, test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	for _, port := range []intstr.IntOrString{intstr.FromString("no-such"), intstr.FromInt(0)} {
		if _, err := (target{spec: spec}).port(port); err == nil {
			t.Errorf("port %v exists", port)
		}
	}
}

// A probe reads the beginning of an endless response.
func TestEndlessProbe(t *testing.T) {
	const enough = 256 << 20 // far more than the buffers of a connection
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for sent.Load() < enough {
			n, err := w.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	probe := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: portOf(t, server.Listener.Addr().String())}}
	if err := (target{spec: &corev1.Container{}, ip: "127.0.0.1"}).probe(t.Context(),
		&corev1.Probe{ProbeHandler: probe, TimeoutSeconds: 300}, "kube-probe/1.37"); err != nil {
		t.Error(err)
	}
	server.Close() // waits for the handler
	if n := sent.Load(); n >= enough {
		t.Errorf("the probe read %d bytes", n)
	}
}
