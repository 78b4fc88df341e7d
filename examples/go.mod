module kelson.dev/examples

go 1.26.0

require (
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
	kelson.dev v0.0.0
	kelson.dev/operator v0.0.0
)

replace kelson.dev => ../

replace kelson.dev/operator => ../operator
