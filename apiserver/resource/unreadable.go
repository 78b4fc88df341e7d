package resource

import (
	"encoding/hex"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Unreadable returns the error, with Kubernetes' wording, of a body that err prevents from being
// decoded as the kind want. got is the kind of the body; nil or without Kind: it has none. An err
// with a Status is returned unchanged.
func Unreadable(want string, got *schema.GroupVersionKind, body []byte, err error) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return err
	}
	if got != nil && got.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", got.Kind,
			got.Version, want, err))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)",
		want, err, excerpt(body)))
}

// excerpt returns the first bytes of a body: verbatim if it looks like JSON, otherwise in
// hexadecimal.
func excerpt(body []byte) string {
	const most = 30
	if len(body) == 0 {
		return "<empty>"
	}
	more := ""
	begin := body[:min(len(body), most)]
	if len(body) > most {
		more = " ..."
	}
	if body[0] == '{' {
		return string(begin) + more
	}
	return hex.EncodeToString(begin) + more
}
