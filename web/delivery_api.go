package web

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

func (s *Server) mountDeliveries(api huma.API) {
	register(s, api, operation(http.MethodGet, "/deliveries", "list-deliveries", ScopeRead, "List deliveries, newest first"), s.apiListDeliveries)
	register(s, api, operation(http.MethodGet, "/deliveries/{id}", "get-delivery", ScopeRead, "Get a delivery and its attempts"), s.apiGetDelivery)
}

type listDeliveriesInput struct {
	PageInput
	State       string `query:"state" enum:"pending,retrying,delivered,expired,dead_lettered,superseded,cancelled"`
	Destination string `query:"destination" maxLength:"40"`
	Lane        string `query:"lane" maxLength:"40"`
	Event       string `query:"event" maxLength:"400"`
	Subject     string `query:"subject" maxLength:"255"`
	Type        string `query:"type" maxLength:"100" doc:"Exact, or shipment.* for everything below."`
	Tenant      string `query:"tenant" maxLength:"100"`
	Status      string `query:"status" maxLength:"4" doc:"The last answer: a status such as 503, a class such as 5xx, or none."`
	ErrorClass  string `query:"error_class" maxLength:"60" doc:"Of the last attempt, such as timeout."`
	TimeInput
}

func (s *Server) apiListDeliveries(ctx context.Context, in *listDeliveriesInput) (*pageOutput[Delivery], error) {
	q := deliveryQuery{
		State: in.State, Destination: in.Destination, Lane: in.Lane, Event: in.Event, Subject: in.Subject, Type: in.Type, Tenant: in.Tenant,
		Status: in.Status, ErrorClass: in.ErrorClass, Since: in.Since, From: in.From, Until: in.Until,
	}
	filter, problems := q.parse(time.Now())
	if len(problems) > 0 {
		return nil, &problems[0]
	}
	filter.Cursor, filter.Limit = in.Cursor, in.Limit
	page, err := s.listDeliveries(ctx, filter)
	if err != nil {
		return nil, err
	}
	return &pageOutput[Delivery]{page}, nil
}

type deliveryInput struct {
	ID string `path:"id" maxLength:"40"`
}

type deliveryOutput struct{ Body DeliveryDetail }

func (s *Server) apiGetDelivery(ctx context.Context, in *deliveryInput) (*deliveryOutput, error) {
	id, err := parseID(idDelivery, in.ID)
	if err != nil {
		return nil, err
	}
	delivery, err := s.getDelivery(ctx, id)
	if err != nil {
		return nil, err
	}
	return &deliveryOutput{delivery}, nil
}
