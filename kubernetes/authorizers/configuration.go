package authorizers

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authorization/cel"
	upstream "k8s.io/kubernetes/pkg/kubeapiserver/authorizer"
)

// Parse decodes and validates an AuthorizationConfiguration. Errors have kube-apiserver's wording.
// The configuration must contain all required types.
func Parse(data []byte, required ...apiserver.AuthorizerType) (*apiserver.AuthorizationConfiguration, error) {
	return upstream.LoadAndValidateData(data, cel.NewDefaultCompiler(), sets.New(required...))
}
