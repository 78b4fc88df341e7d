// Command main is the operator deletes-by-name of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("deletes-by-name") }
