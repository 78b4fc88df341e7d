module kelson.dev/examples

go 1.26.0
