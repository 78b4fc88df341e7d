package rest

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver/rest/wire"
)

func (s *scope) delete() error {
	f, err := wire.Negotiate(s.req, s.allow())
	if err != nil {
		return err
	}
	opts, err := s.deleteOptions()
	if err != nil {
		return err
	}
	if !unsafeDelete(opts) {
		s.deleting(opts)
	}
	admit := s.admit(len(opts.DryRun) > 0, func(admission.Operation) runtime.Object { return opts })
	done, err := s.remove(s.ctx, s.res, s.res.Key(s.namespace, s.name), opts, admit.validateDelete())
	if err != nil {
		return err
	}
	code := http.StatusOK
	//nolint:staticcheck // SA1019: old clients send it
	if orphan := opts.OrphanDependents; !done.gone && orphan != nil && !*orphan {
		code = http.StatusAccepted
	}
	if done.status != nil {
		bare, err := wire.Encode(f.Bare(), done.status)
		if err != nil {
			return err
		}
		wire.Object(s.w, s.req, code, f, wire.StatusKind(), bare)
		return nil
	}
	return s.answer(code, f, done.obj)
}

// unsafeDelete says whether an object is to go that can't be read. Here all can be.
func unsafeDelete(opts *metav1.DeleteOptions) bool {
	unsafe := opts.IgnoreStoreReadErrorWithClusterBreakingPotential
	return unsafe != nil && *unsafe
}

// deleting tells the kind's own rules that something is about to be deleted.
func (s *scope) deleting(opts *metav1.DeleteOptions) {
	if hooks := s.res.Hooks; hooks != nil && hooks.Deleting != nil {
		hooks.Deleting(s.ctx, opts)
	}
}

// deleteOptions reads the options from the body, in any medium, or from the query if there is no body.
func (s *scope) deleteOptions() (*metav1.DeleteOptions, error) {
	body, err := s.body()
	if err != nil {
		return nil, err
	}
	opts := &metav1.DeleteOptions{}
	if len(body) == 0 {
		if err := s.query(opts); err != nil {
			return nil, err
		}
	} else if err := s.decodeDeleteOptions(body, opts); err != nil {
		return nil, err
	}
	if errs := validation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeleteOptions"))
	if len(body) > 0 {
		s.record(opts)
	}
	return opts, nil
}

func (s *scope) decodeDeleteOptions(body []byte, opts *metav1.DeleteOptions) error {
	media, err := wire.BodyMedia(s.req, wire.Allow{Protobuf: true})
	if err != nil {
		return err
	}
	codecs := serializer.NewCodecFactory(metainternal.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), media) // all that BodyMedia gives are there
	kind := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
	obj, _, err := codecs.DecoderToVersion(info.Serializer, kind.GroupVersion()).Decode(body, &kind, opts)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if obj != opts {
		return apierrors.NewBadRequest("decoded object cannot be converted to DeleteOptions")
	}
	return nil
}
