package explore

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// The verbs of the points of gRPC calls. A query changes nothing.
const (
	callVerb  = "CALL"
	queryVerb = "QUERY"
)

// grpcScheme is the scheme of the addresses of gRPC services.
const grpcScheme = "grpc"

// grpcMethods are the methods of a gRPC service, by path: /package.Service/Method.
type grpcMethods map[string]protoreflect.MethodDescriptor

// methodsOf returns the methods in a set of descriptors, which must contain all imported files.
func methodsOf(set *descriptorpb.FileDescriptorSet) (grpcMethods, error) {
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, fmt.Errorf("descriptors: %w", err)
	}
	all := grpcMethods{}
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				all["/"+string(m.Parent().FullName())+"/"+string(m.Name())] = m
			}
		}
		return true
	})
	if len(all) == 0 {
		return nil, errors.New("descriptors: they have no service")
	}
	return all, nil
}

// validateGRPC checks an answer of a gRPC service: it must belong to methods, and its body must be
// the JSON form of their response.
func (a *Answer) validateGRPC(methods grpcMethods) error {
	switch {
	case a.Method != "" || a.Status != 0 || a.Header != nil:
		return errors.New("an answer of a gRPC service has no method, status or headers; the path is /package.Service/Method")
	case a.Code != codes.OK && a.Body != nil:
		return errors.New("an answer with a code other than OK has no body")
	case a.Message != "" && a.Code == codes.OK:
		return errors.New("an answer with a message needs a code")
	}
	found := false
	for path, m := range methods {
		if !matchPath(a.Path, path) {
			continue
		}
		found = true
		if _, err := a.message(m); err != nil {
			return fmt.Errorf("body of %s: %w", path, err)
		}
	}
	if !found {
		return fmt.Errorf("path %q: no method of the descriptors has it", a.Path)
	}
	return nil
}

// message returns the encoded response of a method.
func (a *Answer) message(m protoreflect.MethodDescriptor) ([]byte, error) {
	response := dynamicpb.NewMessage(m.Output())
	if a.Body != nil {
		data, err := json.Marshal(a.Body)
		if text, ok := a.Body.(string); ok && json.Valid([]byte(text)) {
			data = []byte(text) // of a file
		}
		if err != nil {
			return nil, err
		}
		if err := protojson.Unmarshal(data, response); err != nil {
			return nil, err
		}
	}
	return proto.Marshal(response)
}

// isQuery reports whether a method changes nothing: its option idempotency_level says so, or its
// name does.
func isQuery(m protoreflect.MethodDescriptor) bool {
	return level(m) == descriptorpb.MethodOptions_NO_SIDE_EFFECTS || hasVerb(m, "Get", "List", "BatchGet",
		"Search", "Query", "Check", "Lookup", "Describe", "Read", "Count", "Watch")
}

// adds reports whether each call of a method adds something.
func adds(m protoreflect.MethodDescriptor) bool {
	return level(m) != descriptorpb.MethodOptions_IDEMPOTENT &&
		hasVerb(m, "Create", "BatchCreate", "Add", "Insert", "Append", "Allocate", "Send", "Issue", "Publish")
}

func level(m protoreflect.MethodDescriptor) descriptorpb.MethodOptions_IdempotencyLevel {
	options, _ := m.Options().(*descriptorpb.MethodOptions)
	return options.GetIdempotencyLevel()
}

// hasVerb reports whether the name of a method begins with a verb, such as GetZone with Get.
func hasVerb(m protoreflect.MethodDescriptor, verbs ...string) bool {
	for _, verb := range verbs {
		rest, ok := strings.CutPrefix(string(m.Name()), verb)
		if ok && (rest == "" || rest[0] < 'a' || rest[0] > 'z') {
			return true
		}
	}
	return false
}

// method returns the method of a gRPC call; nil for other requests and for unknown methods. isGRPC
// reports whether a service of gRPC has the address.
func (o *outside) method(u *url.URL) (m protoreflect.MethodDescriptor, isGRPC bool) {
	for i := range o.all {
		if s := &o.all[i]; s.methods != nil && s.serves(u) {
			return s.methods[u.Path], true
		}
	}
	return nil, false
}

// decodeRequest returns the request of a call as JSON: the first message of its body.
func decodeRequest(m protoreflect.MethodDescriptor, header http.Header, body []byte) ([]byte, error) {
	const prefix = 5 // whether the message is compressed, and its length
	if len(body) < prefix || len(body)-prefix != int(binary.BigEndian.Uint32(body[1:])) {
		return nil, errors.New("the message is not complete")
	}
	data := body[prefix:]
	if body[0] != 0 {
		if encoding := header.Get("Grpc-Encoding"); encoding != "gzip" {
			return nil, fmt.Errorf("the message has the encoding %q", encoding)
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		if data, err = io.ReadAll(unpacked); err != nil {
			return nil, err
		}
	}
	request := dynamicpb.NewMessage(m.Input())
	if err := proto.Unmarshal(data, request); err != nil {
		return nil, err
	}
	return protojson.Marshal(request)
}

// respondGRPC returns the response of an answer to a call.
func (a *Answer) respondGRPC(r *http.Request, m protoreflect.MethodDescriptor) (*http.Response, error) {
	if a.Code != codes.OK {
		return grpcStatus(r, a.Code, a.Message), nil
	}
	message, err := a.message(m)
	if err != nil {
		return nil, err
	}
	resp := grpcStatus(r, codes.OK, "")
	body := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	resp.Body = io.NopCloser(bytes.NewReader(append(body, message...)))
	return resp, nil
}

// grpcStatus returns a response without a message.
func grpcStatus(r *http.Request, code codes.Code, message string) *http.Response {
	header := http.Header{"Content-Type": {"application/grpc"}}
	// The agent's HTTP server sends these as trailers.
	header[http.TrailerPrefix+"Grpc-Status"] = []string{strconv.Itoa(int(code))}
	if message != "" {
		header[http.TrailerPrefix+"Grpc-Message"] = []string{url.PathEscape(message)}
	}
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Header: header, ContentLength: -1, Body: http.NoBody, Request: r}
}
