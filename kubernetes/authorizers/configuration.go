package authorizers

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authorization/cel"
	upstream "k8s.io/kubernetes/pkg/kubeapiserver/authorizer"
)

// Parse reads an AuthorizationConfiguration and says, in kube-apiserver's words, what is wrong with it. Of the required types each must
// be in it.
func Parse(data []byte, required ...apiserver.AuthorizerType) (*apiserver.AuthorizationConfiguration, error) {
	return upstream.LoadAndValidateData(data, cel.NewDefaultCompiler(), sets.New(required...))
}
