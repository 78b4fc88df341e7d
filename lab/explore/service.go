package explore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/descriptorpb"

	"kelson.dev/lab/agent/inside"
)

// Service is a system outside of the cluster, whose part the explorer plays for a Program: it
// answers the operator's requests over HTTP/1.1, or its unary calls of gRPC, with TLS or without
// it, in virtual time. Its calls are points of faults (see [Refuse]), and what they have left is
// part of the state of a run.
type Service struct {
	// Address is a URL such as https://api.example.com/v1 or, for gRPC,
	// grpc://api.example.com:443, or HOST:PORT. The host may begin with
	// "*.", in which * stands for one label. The path is a prefix; requests with other paths
	// belong to another Service of the host, or have no answer.
	Address string
	// Answers are the possible answers. The first that matches a request is given. A request
	// without one gets 404, and the report lists it.
	Answers []Answer
	// Descriptors describe the methods of a gRPC service. They contain all imported files, as
	// protoc writes them with --include_imports.
	Descriptors *descriptorpb.FileDescriptorSet

	methods grpcMethods // nil for other services
	pattern string      // HOST:PORT
	name    string      // in points and states: the address without a path
	prefix  string      // of the paths
}

// Answer is a recorded answer of a Service.
type Answer struct {
	// Method and Path select requests. "" selects all methods and paths. Path is below that of the
	// Service, or /package.Service/Method for gRPC, which has no Method. In a path, * stands for
	// any characters but a slash, and ** at the end for any.
	Method, Path string
	// State, if not nil, selects requests while the service is in this state. Services begin in the
	// state "". Becomes, if not nil, is the state after the answer.
	State, Becomes *string
	// Times bounds how often the answer is given in a run; 0 means any number.
	Times int
	// Status is that of the response; 0 means 200.
	Status int
	Header http.Header
	// Code and Message are the status of a gRPC call, instead of Status.
	Code    codes.Code
	Message string
	// Body is a text, or a value that is sent as JSON; nil for none. For gRPC, it is the JSON form
	// of the response.
	Body any
	// Delay is how long the response takes.
	Delay time.Duration
	// Fails ends the connection without a response, although the request was executed.
	Fails bool
}

// validate checks a service, and completes the fields that are not exported.
func (s *Service) validate() error {
	if s.Address == "" {
		return errors.New("address is missing: want HOST:PORT or a URL")
	}
	address := s.Address
	if !strings.Contains(address, "://") {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			return fmt.Errorf("address %q: want HOST:PORT or a URL", s.Address)
		}
		address = "tcp://" + address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return fmt.Errorf("address %q: %w", s.Address, err)
	case u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		!slices.Contains([]string{"http", "https", "tcp", grpcScheme}, u.Scheme):
		return fmt.Errorf("address %q: want HOST:PORT, or a URL with http, https or grpc, a host and perhaps a path", s.Address)
	case u.Scheme == grpcScheme && (u.Port() == "" || u.Path != ""):
		return fmt.Errorf("address %q: want grpc://HOST:PORT", s.Address)
	case u.Scheme == grpcScheme && s.Descriptors == nil:
		return fmt.Errorf("%s has no descriptors", s.Address)
	case u.Scheme != grpcScheme && s.Descriptors != nil:
		return fmt.Errorf("%s has descriptors, which need an address with grpc://", s.Address)
	}
	if s.Descriptors != nil {
		if s.methods, err = methodsOf(s.Descriptors); err != nil {
			return fmt.Errorf("%s: %w", s.Address, err)
		}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	s.pattern, s.prefix = net.JoinHostPort(u.Hostname(), port), strings.TrimSuffix(u.Path, "/")
	if s.name = s.pattern; u.Scheme != "tcp" {
		s.name = u.Scheme + "://" + u.Host
	}
	if len(s.Answers) == 0 {
		return fmt.Errorf("%s has no answers", s.Address)
	}
	for i := range s.Answers {
		err := s.Answers[i].validate()
		if err == nil && s.methods != nil {
			err = s.Answers[i].validateGRPC(s.methods)
		}
		if err != nil {
			return fmt.Errorf("%s: answers[%d]: %w", s.Address, i, err)
		}
		if a := &s.Answers[i]; s.methods == nil && (a.Code != codes.OK || a.Message != "") {
			return fmt.Errorf("%s: answers[%d]: code and message need an address with grpc://", s.Address, i)
		}
	}
	return nil
}

func (a *Answer) validate() error {
	pattern := strings.TrimSuffix(a.Path, "**")
	switch _, err := path.Match(pattern, ""); {
	case err != nil || a.Path != "" && !strings.HasPrefix(a.Path, "/") || strings.Contains(pattern, "**"):
		return fmt.Errorf("path %q: want a path such as /zones/*, or /zones/** for all below it", a.Path)
	case a.Method != strings.ToUpper(a.Method):
		return fmt.Errorf("method %q: want upper case, such as GET", a.Method)
	case a.Status != 0 && (a.Status < 200 || a.Status > 599):
		return fmt.Errorf("status %d: want 200 to 599", a.Status)
	case a.Times < 0 || a.Delay < 0:
		return errors.New("times and delay must not be negative")
	case a.Fails && (a.Status != 0 || a.Body != nil || a.Code != codes.OK):
		return errors.New("an answer that fails has no status, no code and no body")
	}
	return nil
}

// matches reports whether an answer is possible for a request.
func (a *Answer) matches(method, below, state string, given int) bool {
	return (a.Method == "" || a.Method == method) && (a.Times == 0 || given < a.Times) &&
		(a.State == nil || *a.State == state) && matchPath(a.Path, below)
}

// matchPath reports whether a path matches a pattern of Answer.
func matchPath(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	if before, ok := strings.CutSuffix(pattern, "**"); ok {
		// the pattern before selects as many elements of the path
		n := strings.Count(before, "/")
		parts := strings.SplitAfterN(name, "/", n+1)
		if len(parts) <= n {
			return false
		}
		begin := strings.Join(parts[:n], "")
		matched, _ := path.Match(strings.TrimSuffix(before, "/"), strings.TrimSuffix(begin, "/")) // valid
		return matched
	}
	matched, _ := path.Match(pattern, name)
	return matched
}

// serves reports whether a service has the URL of a request.
func (s *Service) serves(u *url.URL) bool {
	if !inside.MatchAddress(s.pattern, u.Host) {
		return false
	}
	return s.prefix == "" || u.Path == s.prefix || strings.HasPrefix(u.Path, s.prefix+"/")
}

// respond returns the response of an answer.
func (a *Answer) respond(r *http.Request) (*http.Response, error) {
	header := a.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	var body []byte
	switch b := a.Body.(type) {
	case nil:
	case string:
		body = []byte(b)
	default:
		var err error
		if body, err = json.Marshal(b); err != nil {
			return nil, err
		}
		if header.Get("Content-Type") == "" {
			header.Set("Content-Type", "application/json")
		}
	}
	code := a.Status
	if code == 0 {
		code = http.StatusOK
	}
	return plainResponse(r, code, header, body), nil
}

// plainResponse returns a response with a body.
func plainResponse(r *http.Request, code int, header http.Header, body []byte) *http.Response {
	header.Set("Content-Length", strconv.Itoa(len(body)))
	return &http.Response{StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body)), Request: r}
}
