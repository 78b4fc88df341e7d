package rest

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"kelson.dev/apiserver/rest/wire"
)

// deleteOptions decodes the options from the body, in any media type, or from the query if there is
// no body.
func (in *input) deleteOptions() (*metav1.DeleteOptions, error) {
	body, err := in.body()
	if err != nil {
		return nil, err
	}
	opts := &metav1.DeleteOptions{}
	if len(body) == 0 {
		if err := in.query(opts); err != nil {
			return nil, err
		}
	} else if err := in.decodeDeleteOptions(body, opts); err != nil {
		return nil, err
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion) {
		opts.IgnoreStoreReadErrorWithClusterBreakingPotential = nil
	}
	if errs := validation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeleteOptions"))
	if len(body) > 0 {
		in.record(opts)
	}
	return opts, nil
}

func (in *input) decodeDeleteOptions(body []byte, opts *metav1.DeleteOptions) error {
	media, err := wire.BodyMedia(in.req, wire.Allow{Protobuf: true})
	if err != nil {
		return err
	}
	codecs := serializer.NewCodecFactory(metainternal.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
	// the codecs have every media type that BodyMedia returns
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), media)
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
