// Package metricstest provides an OTLP metrics receiver for tests: a real server on
// a free port that keeps what it receives.
package metricstest

import (
	"compress/gzip"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pmetric"
	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// A Receiver accepts metrics, and accepts but ignores spans.
type Receiver struct {
	colmetricpb.UnimplementedMetricsServiceServer
	t                  testing.TB
	grpcAddr, httpAddr string

	stop func() // nil when stopped

	mu       sync.Mutex
	requests []*colmetricpb.ExportMetricsServiceRequest
	arrivals []time.Time // of all requests, refused ones included
	refuse   func(n int) error
	changed  chan struct{}
}

// Start starts a Receiver that stops with the test.
func Start(t testing.TB) *Receiver {
	t.Helper()
	addresses, err := receivertest.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	r := &Receiver{t: t, grpcAddr: addresses[0], httpAddr: addresses[1], changed: make(chan struct{})}
	r.Restart()
	t.Cleanup(r.Stop)
	return r
}

// Restart starts the receiver again, on the same ports and with what it had received.
func (r *Receiver) Restart() {
	r.t.Helper()
	server := grpc.NewServer()
	colmetricpb.RegisterMetricsServiceServer(server, r)
	coltracepb.RegisterTraceServiceServer(server, spans{})
	web := &http.Server{Handler: http.HandlerFunc(r.serveHTTP), ReadHeaderTimeout: time.Minute}
	overGRPC, overHTTP := r.listen(r.grpcAddr), r.listen(r.httpAddr)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(overGRPC) })
	serving.Go(func() { _ = web.Serve(overHTTP) })
	r.stop = func() {
		server.Stop()
		_ = web.Close()
		serving.Wait()
	}
}

func (r *Receiver) listen(address string) net.Listener {
	r.t.Helper()
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		r.t.Fatal(err)
	}
	return listener
}

// Stop stops the receiver: its ports refuse connections.
func (r *Receiver) Stop() {
	if r.stop != nil {
		r.stop()
		r.stop = nil
		receivertest.Released()
	}
}

// spans accepts spans.
type spans struct {
	coltracepb.UnimplementedTraceServiceServer
}

func (spans) Export(context.Context, *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	return new(coltracepb.ExportTraceServiceResponse), nil
}

// GRPCEndpoint returns the value of OTEL_EXPORTER_OTLP_ENDPOINT for gRPC.
func (r *Receiver) GRPCEndpoint() string { return "http://" + r.grpcAddr }

// HTTPEndpoint returns the value of OTEL_EXPORTER_OTLP_ENDPOINT for HTTP.
func (r *Receiver) HTTPEndpoint() string { return "http://" + r.httpAddr }

// Refuse makes f answer the requests. n numbers the requests since the call, from
// 1.
func (r *Receiver) Refuse(f func(n int) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse, r.arrivals = f, nil
}

// Export serves gRPC.
func (r *Receiver) Export(_ context.Context, req *colmetricpb.ExportMetricsServiceRequest) (*colmetricpb.ExportMetricsServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrivals = append(r.arrivals, time.Now())
	defer func() {
		close(r.changed)
		r.changed = make(chan struct{})
	}()
	if r.refuse != nil {
		if err := r.refuse(len(r.arrivals)); err != nil {
			return nil, err
		}
	}
	r.requests = append(r.requests, req)
	return new(colmetricpb.ExportMetricsServiceResponse), nil
}

func (r *Receiver) serveHTTP(w http.ResponseWriter, req *http.Request) {
	in := io.Reader(req.Body)
	var err error
	if req.Header.Get("Content-Encoding") == "gzip" {
		in, err = gzip.NewReader(in)
	}
	var body []byte
	if err == nil {
		body, err = io.ReadAll(in)
	}
	if err == nil && req.URL.Path == "/v1/metrics" && req.Header.Get("Content-Type") == "application/json" {
		body, err = fromJSON(body)
	}
	metrics := new(colmetricpb.ExportMetricsServiceRequest)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	case req.URL.Path == "/v1/traces":
	case req.URL.Path != "/v1/metrics":
		w.WriteHeader(http.StatusNotFound)
	case proto.Unmarshal(body, metrics) != nil:
		w.WriteHeader(http.StatusBadRequest)
	default:
		if _, err := r.Export(req.Context(), metrics); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
}

func fromJSON(body []byte) ([]byte, error) {
	decoded, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(body)
	if err != nil {
		return nil, err
	}
	return (&pmetric.ProtoMarshaler{}).MarshalMetrics(decoded)
}

// Requests are those that were taken.
func (r *Receiver) Requests() []*colmetricpb.ExportMetricsServiceRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Arrivals returns when requests arrived since Refuse.
func (r *Receiver) Arrivals() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.arrivals)
}

// Await waits until ok returns true. It calls ok after every request, and fails the
// test after half a minute.
func (r *Receiver) Await(t testing.TB, ok func() bool) {
	t.Helper()
	receivertest.Await(t, &r.mu, &r.changed, ok)
}

// Resources returns the resources of all accepted requests.
func (r *Receiver) Resources() (resources []*resourcepb.Resource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, req := range r.requests {
		for _, rm := range req.ResourceMetrics {
			resources = append(resources, rm.Resource)
		}
	}
	return resources
}

// A Point is a series with its last value, or for delta temporality the sum of
// its values.
type Point struct {
	Metric     *metricpb.Metric // without its points
	Attributes string           // key=value, sorted, with a comma between
	Count      uint64           // of a histogram
	Sum        float64          // of a histogram; else the value
	Start      uint64
	Buckets    []uint64
	Exemplars  []*metricpb.Exemplar
	Requests   int // that contained it
}

// Points returns all received series by name and attributes: name{key=value,...}.
func (r *Receiver) Points() map[string]*Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	points := map[string]*Point{}
	for _, req := range r.requests {
		for _, rm := range req.ResourceMetrics {
			instance := attributes(rm.Resource.GetAttributes(), "service.instance.id")
			for _, sm := range rm.ScopeMetrics {
				for _, m := range sm.Metrics {
					collect(points, instance, m)
				}
			}
		}
	}
	merged := map[string]*Point{} // without the instances
	for _, key := range slices.Sorted(maps.Keys(points)) {
		p := points[key]
		_, name, _ := strings.Cut(key, "|")
		if merged[name] == nil {
			merged[name] = p
			continue
		}
		merged[name].Count += p.Count
		merged[name].Sum += p.Sum
	}
	return merged
}

func collect(points map[string]*Point, instance string, m *metricpb.Metric) {
	put := func(p Point, delta bool, attrs []*commonpb.KeyValue) {
		p.Attributes = attributes(attrs)
		key := instance + "|" + m.Name + "{" + p.Attributes + "}"
		p.Metric, p.Requests = m, 1
		if old := points[key]; old != nil {
			p.Requests += old.Requests
			if delta {
				p.Count += old.Count
				p.Sum += old.Sum
			}
		}
		points[key] = &p
	}
	const delta = metricpb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	switch data := m.Data.(type) {
	case *metricpb.Metric_Histogram:
		for _, p := range data.Histogram.DataPoints {
			put(Point{Count: p.Count, Sum: p.GetSum(), Start: p.StartTimeUnixNano, Buckets: p.BucketCounts, Exemplars: p.Exemplars},
				data.Histogram.AggregationTemporality == delta, p.Attributes)
		}
	case *metricpb.Metric_Sum:
		for _, p := range data.Sum.DataPoints {
			put(Point{Sum: number(p), Start: p.StartTimeUnixNano, Exemplars: p.Exemplars}, data.Sum.AggregationTemporality == delta, p.Attributes)
		}
	case *metricpb.Metric_Gauge:
		for _, p := range data.Gauge.DataPoints {
			put(Point{Sum: number(p)}, false, p.Attributes)
		}
	}
}

func number(p *metricpb.NumberDataPoint) float64 {
	if v, ok := p.Value.(*metricpb.NumberDataPoint_AsInt); ok {
		return float64(v.AsInt)
	}
	return p.GetAsDouble()
}

// attributes formats a list of attributes, or only those with the given keys.
func attributes(list []*commonpb.KeyValue, keys ...string) string {
	var out []string
	for _, kv := range list {
		if len(keys) == 0 || slices.Contains(keys, kv.Key) {
			v := kv.Value.GetStringValue()
			if kv.Value.GetBoolValue() {
				v = "true"
			}
			out = append(out, kv.Key+"="+v)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}
