package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilexec "k8s.io/utils/exec"
)

// This file runs the handlers of probes and lifecycle hooks.

// maxOutput is how much of a handler's output appears in messages.
const maxOutput = 10 << 10

// unhealthyError means that a handler ran, and its result is a failure. Other errors mean that it
// could not run.
type unhealthyError struct{ output string }

func (e *unhealthyError) Error() string { return e.output }

func unhealthy(format string, args ...any) error {
	return &unhealthyError{fmt.Sprintf(format, args...)}
}

// target is the container that a handler calls.
type target struct {
	container Container
	spec      *corev1.Container
	ip        string // of the pod
}

// exec runs a command in the container. A nonzero exit code and a timeout are failures.
func (t target) exec(ctx context.Context, action *corev1.ExecAction) error {
	executor, ok := t.container.(Executor)
	if !ok {
		return errors.New("the container can't run commands")
	}
	out := &limited{most: maxOutput}
	err := executor.Exec(ctx, action.Command, Streams{Stdout: out, Stderr: out})
	var exit utilexec.CodeExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return unhealthy("command timed out: %q timed out", strings.Join(action.Command, " "))
	case errors.As(err, &exit):
		return unhealthy("%s", out.String())
	}
	return err
}

// limited keeps the beginning of what is written. Its writers must be synchronized.
type limited struct {
	bytes.Buffer
	most int
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.most - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// http sends a GET request. Status codes from 200 to 399 are successes, as are redirects to other
// hosts, which are not followed.
func (t target) http(ctx context.Context, action *corev1.HTTPGetAction, agent string) error {
	port, err := t.port(action.Port)
	if err != nil {
		return err
	}
	host := action.Host
	if host == "" {
		host = t.ip
	}
	path, err := url.Parse(action.Path)
	if err != nil {
		path = &url.URL{Path: action.Path}
	}
	path.Scheme, path.Host = strings.ToLower(string(action.Scheme)), net.JoinHostPort(host, strconv.Itoa(port))
	if path.Scheme == "" {
		path.Scheme = "http"
	}
	if path.Path != "" && !strings.HasPrefix(path.Path, "/") {
		path.Path = "/" + path.Path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", agent)
	req.Header.Set("Accept", "*/*")
	for _, header := range action.HTTPHeaders {
		if http.CanonicalHeaderKey(header.Name) == "Host" {
			req.Host = header.Value
		} else {
			req.Header.Add(header.Name, header.Value)
		}
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
		DisableCompression: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if next.URL.Hostname() != via[0].URL.Hostname() || len(via) >= 10 {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	resp, err := client.Do(req)
	if err != nil {
		return unhealthy("%v", err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxOutput))
	if resp.StatusCode < 200 || resp.StatusCode >= 400 {
		return unhealthy("HTTP probe failed with statuscode: %d", resp.StatusCode)
	}
	return nil
}

// tcp connects to a port.
func (t target) tcp(ctx context.Context, action *corev1.TCPSocketAction) error {
	port, err := t.port(action.Port)
	if err != nil {
		return err
	}
	host := action.Host
	if host == "" {
		host = t.ip
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return unhealthy("%v", err)
	}
	return conn.Close()
}

// grpc calls the standard health service.
func (t target) grpc(ctx context.Context, action *corev1.GRPCAction, agent string) error {
	address := net.JoinHostPort(t.ip, strconv.Itoa(int(action.Port)))
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUserAgent(agent))
	if err != nil {
		return err
	}
	defer conn.Close()
	service := ""
	if action.Service != nil {
		service = *action.Service
	}
	resp, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		return unhealthy("error: health rpc failed: %v", err)
	}
	if resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return unhealthy("service unhealthy (responded with %q)", resp.GetStatus().String())
	}
	return nil
}

// port returns the number of a port, which may be the name of one of the container's.
func (t target) port(port intstr.IntOrString) (int, error) {
	number := port.IntValue()
	if port.Type == intstr.String {
		for _, p := range t.spec.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
			}
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("invalid port: %v", port.String())
	}
	return number, nil
}

// probe runs a probe's handler once, within its timeout.
func (t target) probe(ctx context.Context, p *corev1.Probe, agent string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(p.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	switch {
	case p.Exec != nil:
		return t.exec(ctx, p.Exec)
	case p.HTTPGet != nil:
		return t.http(ctx, p.HTTPGet, agent)
	case p.TCPSocket != nil:
		return t.tcp(ctx, p.TCPSocket)
	case p.GRPC != nil:
		return t.grpc(ctx, p.GRPC, agent)
	}
	return errors.New("missing probe handler")
}

// hook runs the handler of a lifecycle hook.
func (t target) hook(ctx context.Context, h *corev1.LifecycleHandler, agent string) error {
	switch {
	case h.Exec != nil:
		return t.exec(ctx, h.Exec)
	case h.HTTPGet != nil:
		return t.http(ctx, h.HTTPGet, agent)
	case h.Sleep != nil:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(h.Sleep.Seconds) * time.Second):
			return nil
		}
	}
	return errors.New("invalid handler") // like a kubelet, which does not run tcpSocket hooks
}
