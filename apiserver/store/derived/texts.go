package derived

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/internal/intern"
)

// texts makes decoded objects share equal strings: most strings of an object, such as policies,
// images and labels, also occur in others. It implements jsondecode.Sharing.
type texts struct{ *intern.Texts }

var pool intern.Pool

func (texts) Fields([]byte) (map[string]any, bool) { return nil, false }
func (texts) Keep([]byte, map[string]any)          {}
func (texts) FieldsV1([]byte) *metav1.FieldsV1     { return nil }
