<!DOCTYPE html>
<html lang="en">
<head><title>{{ config('app.name') }}</title></head>
<body>
<ul>
@foreach (range(1, 15) as $number)
<li><a href="/page/{{ $number }}">Page {{ $number }}</a></li>
@endforeach
</ul>
</body>
</html>
