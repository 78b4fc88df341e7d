package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/warning"

	"kelson.dev/apiserver/metrics"
	"kelson.dev/apiserver/rest/wire"
)

// input is the request: its context, body and options. It records them for the audit log.
type input struct {
	req *http.Request
	// ctx is the context of req, with the namespace that admission and authorization see, and with
	// the warnings of work that runs apart from the request.
	ctx     context.Context
	on      *target
	maxBody int64
	metrics *metrics.Verbs // may be nil
}

// body reads the request body, up to the limit.
func (in *input) body() ([]byte, error) {
	if in.req.Body == nil {
		return nil, nil
	}
	data, err := in.read()
	var tooLarge *http.MaxBytesError
	if int64(len(data)) > in.maxBody || errors.As(err, &tooLarge) {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", in.maxBody))
	}
	if err == nil && strings.HasPrefix(in.req.Header.Get("Content-Type"), runtime.ContentTypeProtobuf) &&
		wire.DeepProtobuf(data) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("protobuf: exceeded max depth of %d", wire.MaxDepth))
	}
	if strings.Contains(in.req.Header.Get("Content-Type"), "json") && !utf8.Valid(data) {
		// Decoders replace invalid UTF-8 in strings, but not in raw values such as managedFields,
		// which could then not be encoded as YAML.
		data = []byte(string([]rune(string(data))))
	}
	return data, err
}

// read returns the body, up to one byte more than the limit. The request pipeline has read most
// bodies before; they are not copied.
func (in *input) read() ([]byte, error) {
	if whole, ok := in.req.Body.(interface{ Rest() ([]byte, bool) }); ok {
		if data, ok := whole.Rest(); ok {
			return data, nil
		}
	}
	return io.ReadAll(io.LimitReader(in.req.Body, in.maxBody+1))
}

// decode decodes a body to a hub.
func (in *input) decode(body []byte, media string) (hub runtime.Object, strict []error, err error) {
	defer in.metrics.Decoded(time.Now())
	return in.on.res.Codec.Decode(body, media, in.on.version)
}

// fieldValidation returns the effective directive.
func fieldValidation(directive string) string {
	if directive == "" {
		return metav1.FieldValidationWarn
	}
	return directive
}

// strictBody reports the errors of strict decoding as warnings or as an error, as the request
// specifies.
func (in *input) strictBody(directive string, strict []error) error {
	if len(strict) == 0 {
		return nil
	}
	switch fieldValidation(directive) {
	case metav1.FieldValidationIgnore:
	case metav1.FieldValidationStrict:
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v",
			in.on.kind.Kind, in.on.kind.Version, in.on.kind.Kind, runtime.NewStrictDecodingError(strict)))
	default:
		warnStrict(in.ctx, strict)
	}
	return nil
}

// warnStrict adds a warning for each error. Errors of YAML contain several.
func warnStrict(ctx context.Context, strict []error) {
	for _, err := range strict {
		text := err.Error()
		for _, prefix := range []string{"yaml: unmarshal errors:\n",
			"error converting YAML to JSON: yaml: unmarshal errors:\n"} {
			if rest, ok := strings.CutPrefix(text, prefix); ok {
				text = rest
				break
			}
		}
		for line := range strings.SplitSeq(text, "\n") {
			warning.AddWarning(ctx, "", strings.TrimSpace(line))
		}
	}
}

// badBody returns the error for a body that could not be decoded.
func badBody(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return apierrors.NewBadRequest(err.Error())
}

// query decodes the query of the request into options of meta.k8s.io/v1 or its internal version.
func (in *input) query(into runtime.Object) error {
	if in.req.URL.RawQuery == "" {
		return nil
	}
	return decodeQuery(in.req.URL.Query(), into)
}
